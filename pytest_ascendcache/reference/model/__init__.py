"""Conversion of whole ONNX models: ``ascendcache-atc --framework=5 --model=X.onnx``.

``reading`` opens the file, ``importing`` makes a graph of ATC's operators of it (``mapping`` is the
table), ``precision`` and ``fusion`` rewrite that, ``conversion`` has every operator served or
compiled like a single one, ``container`` is the ``.om`` file, and ``execution`` runs it.
"""
