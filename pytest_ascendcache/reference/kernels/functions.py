"""Elementary functions in float32 arithmetic, without calls of a library.

The plain functions are accurate to a few units in the last place of float32, so to about half a
unit in float16, and treat NaN, infinities and zeros as IEEE 754 does. Those named ``rough_`` serve
the high_performance implementations: they are accurate to some units in the last place of float16
and promise nothing for special values.
"""

from __future__ import annotations

from math import factorial, inf, nan, pi

from pytest_ascendcache.reference.kernels.trace import Value, select

_LOG2_E = 1.4426950408889634
# ln 2 in two parts. The first has so few bits that its product with a binary exponent is exact.
_LN2_HIGH = 0.693359375
_LN2_LOW = 0.6931471805599453 - 0.693359375
# pi / 2 in four parts. The first three have 8 bits, so products with counts of 16 bits are exact.
_HALF_PI = (1.5703125, 0.0004825592041015625, 1.2665987014770508e-06, 9.920935796805404e-10)
# Adding 1.5 * 2**23 rounds to the nearest integer and leaves it in the low bits.
_ROUNDER = 12582912.0
_ROUNDER_BITS = 0x4B400000


def polynomial(x: Value, *coefficients: float) -> Value:
    """A polynomial by Horner's scheme; the coefficient of the highest power comes first."""
    result = x.trace.floating(coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result


def copy_sign(magnitude: Value, sign: Value) -> Value:
    """A non-negative ``magnitude`` with the sign bit of ``sign``."""
    return (magnitude.bits() | (sign.bits() & 0x80000000)).as_float()


def maximum(left: Value, right: Value) -> Value:
    """The larger one; NaN if either is NaN."""
    larger = select(left > right, left, right)
    return select(left.is_nan(), left, larger)


def minimum(left: Value, right: Value) -> Value:
    """The smaller one; NaN if either is NaN."""
    smaller = select(left < right, left, right)
    return select(left.is_nan(), left, smaller)


def clamp(x: Value, low: Value | float, high: Value | float) -> Value:
    """``x`` clamped to two bounds; NaN stays NaN. Works for integers, too."""
    x = select(x < low, low, x)
    return select(x > high, high, x)


def round_to_integer(x: Value) -> Value:
    """The nearest integer, ties to even, as a float."""
    # From 2**23 on every float is an integer already, and rounding this way would change it.
    near = (x.absolute() + 8388608.0) - 8388608.0
    return select(x.absolute() < 8388608.0, copy_sign(near, x), x)


def floor(x: Value) -> Value:
    """The largest integer not above ``x``."""
    near = round_to_integer(x)
    return select(near > x, near - 1.0, near)


def _power_of_two(exponent: Value) -> Value:
    return ((exponent + 127) << 23).as_float()


def exp(x: Value) -> Value:
    """e**x: reduction by multiples of ln 2 (Cody and Waite), Taylor polynomial of degree 7."""
    x = clamp(x, -104.0, 89.0)
    shifted = x * _LOG2_E + _ROUNDER
    count = shifted - _ROUNDER
    rest = (x - count * _LN2_HIGH) - count * _LN2_LOW
    series = polynomial(rest, *(1 / factorial(power) for power in range(7, 1, -1)))
    fraction = (series * rest * rest + rest) + 1.0
    exponent = shifted.bits() - _ROUNDER_BITS
    # In two steps, because the exponent of the smallest and largest results does not fit in one.
    half = exponent.shift_signed(1)
    return fraction * _power_of_two(half) * _power_of_two(exponent - half)


def expm1(x: Value) -> Value:
    """e**x - 1: Taylor series near zero, where the difference cancels."""
    series = polynomial(x, *(1 / factorial(power) for power in range(9, 0, -1)))
    return select(x.absolute() < 0.5, x * series, exp(x) - 1.0)


def log(x: Value) -> Value:
    """Natural logarithm: 2 atanh(s) with s = f / (2 + f), as a series in s."""
    tiny = x < 2.0**-126
    scaled = select(tiny, x * 8388608.0, x)
    # Shift the interval to [sqrt(1/2), sqrt(2)), where f is small and exact.
    bits = scaled.bits() + (0x3F800000 - 0x3F3504F3)
    exponent = bits.shift_signed(23) - select(tiny, x.trace.word(150), 127)
    count = exponent.to_float()
    f = ((bits & 0x007FFFFF) + 0x3F3504F3).as_float() - 1.0
    s = f / (f + 2.0)
    z = s * s
    series = polynomial(z, 2 / 11, 2 / 9, 2 / 7, 2 / 5, 2 / 3) * z
    half_square = f * f * 0.5
    low = s * (half_square + series) + count * _LN2_LOW
    result = count * _LN2_HIGH - ((half_square - low) - f)
    result = select(x > 3.4028234663852886e38, inf, result)
    result = select(x.equals(0.0), -inf, result)
    result = select(x < 0.0, nan, result)
    return select(x.is_nan(), x, result)


def sigmoid(x: Value) -> Value:
    """1 / (1 + e**-x), without overflow or cancellation for either sign."""
    power = exp(-x.absolute())
    return select(x < 0.0, power, 1.0) / (power + 1.0)


def tanh(x: Value) -> Value:
    """Taylor series near zero, where the quotient cancels; 1 - 2 / (e**2x + 1) elsewhere."""
    magnitude = x.absolute()
    square = x * x
    series = polynomial(square, -1382 / 155925, 62 / 2835, -17 / 315, 2 / 15, -1 / 3)
    near = magnitude + magnitude * (square * series)
    far = 1.0 - 2.0 / (exp(magnitude * 2.0) + 1.0)
    return copy_sign(select(magnitude < 0.35, near, far), x)


def _sin_and_cos(x: Value) -> tuple[Value, Value, Value]:
    """Sine and cosine of ``x`` minus a multiple of pi / 2 (Cody and Waite), and that multiple
    modulo 4.

    Accurate to a few units in the last place up to 100 000; from 1e7 on no digit is right.
    """
    count = round_to_integer(x * (2.0 / pi))
    rest = x
    for part in _HALF_PI:
        rest = rest - count * part
    # An x too large for this reduction still gives a sine between -1 and 1.
    rest = clamp(rest, -0.79, 0.79)
    square = rest * rest
    series = polynomial(square, 1 / 362880, -1 / 5040, 1 / 120, -1 / 6)
    sine = rest + rest * (square * series)
    series = polynomial(square, -1 / 3628800, 1 / 40320, -1 / 720, 1 / 24)
    cosine = (square * square * series - square * 0.5) + 1.0
    return sine, cosine, count - floor(count * 0.25) * 4.0


def sin(x: Value) -> Value:
    """Sine of an angle in radians."""
    sine, cosine, quadrant = _sin_and_cos(x)
    result = select(quadrant.equals(1.0), cosine, sine)
    result = select(quadrant.equals(2.0), -sine, result)
    return select(quadrant.equals(3.0), -cosine, result)


def cos(x: Value) -> Value:
    """Cosine of an angle in radians."""
    sine, cosine, quadrant = _sin_and_cos(x)
    result = select(quadrant.equals(1.0), -sine, cosine)
    result = select(quadrant.equals(2.0), -cosine, result)
    return select(quadrant.equals(3.0), sine, result)


def erfc(x: Value) -> Value:
    """Complementary error function by a Chebyshev approximation with relative error 1.2e-7.

    Source: W. H. Press et al., Numerical Recipes, section 6.2.
    """
    magnitude = x.absolute()
    t = 1.0 / (magnitude * 0.5 + 1.0)
    series = polynomial(
        t,
        *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
        *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
    )
    tail = t * exp(series - magnitude * magnitude)
    return select(x < 0.0, 2.0 - tail, tail)


def erf(x: Value) -> Value:
    """Error function: Taylor series near zero, 1 - erfc elsewhere."""
    magnitude = x.absolute()
    square = x * x
    series = polynomial(square, *(1 / 9360, -1 / 1320, 1 / 216, -1 / 42, 1 / 10, -1 / 3), 1.0)
    near = magnitude * (series * 1.1283791670955126)
    return copy_sign(select(magnitude < 0.5, near, 1.0 - erfc(magnitude)), x)


def log1p(x: Value) -> Value:
    """log(1 + x), corrected for the rounding of the sum."""
    total = x + 1.0
    rounding = total - 1.0
    corrected = log(total) * (x / rounding)
    corrected = select(rounding.equals(0.0), x, corrected)
    return select(x > 3.4028234663852886e38, x, corrected)


def rough_reciprocal(x: Value) -> Value:
    """1 / x estimated from the exponent, then one Newton step; error 0.26 percent."""
    guess = (0x7EF311C7 - x.bits()).as_float()
    return guess * (2.0 - x * guess)


def rough_rsqrt(x: Value) -> Value:
    """1 / sqrt(x) estimated from the exponent, then one Newton step; error 0.18 percent."""
    guess = (0x5F3759DF - (x.bits() >> 1)).as_float()
    return guess * (1.5 - x * 0.5 * guess * guess)


def rough_exp(x: Value) -> Value:
    """e**x by a Chebyshev parabola between powers of two; error 0.2 percent, exact at zero."""
    scaled = clamp(x, -80.0, 80.0) * _LOG2_E
    shifted = scaled + _ROUNDER
    rest = scaled - (shifted - _ROUNDER)
    fraction = polynomial(rest, 0.2402265, 0.7035528, 1.0)
    return fraction * _power_of_two(shifted.bits() - _ROUNDER_BITS)


def rough_sigmoid(x: Value) -> Value:
    """1 / (1 + e**-x) by :func:`rough_exp` and :func:`rough_reciprocal`."""
    return rough_reciprocal(rough_exp(-x) + 1.0)


def rough_tanh(x: Value) -> Value:
    """tanh(x) by a Padé approximant of degrees 5 and 4, clamped to -1 and 1."""
    x = clamp(x, -5.0, 5.0)
    square = x * x
    above = x * polynomial(square, 1.0, 105.0, 945.0)
    below = polynomial(square, 15.0, 420.0, 945.0)
    return clamp(above * rough_reciprocal(below), -1.0, 1.0)
