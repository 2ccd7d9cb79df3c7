"""Values recorded at import: the entry script, and the places of installed modules."""

import sys
from pathlib import Path

sys_path = list(sys.path)
entry_script_path = str(Path(sys.argv[0]).resolve())
