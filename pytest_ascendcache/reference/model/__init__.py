"""Conversion of ONNX models: ``ascendcache-atc --framework=5 --model=X.onnx``.

``reading`` opens the file, ``importing`` turns it into a graph of ATC's operators (``mapping`` has
a function for each ONNX type), and ``precision`` and ``fusion`` rewrite the graph. ``conversion``
serves or compiles each operator like a single one, ``container`` is the ``.om`` file, and
``execution`` runs it.
"""
