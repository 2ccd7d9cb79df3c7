"""What is noted while it is imported: the entry script, and where installed modules are."""

import sys
from pathlib import Path

sys_path = list(sys.path)
entry_script_path = str(Path(sys.argv[0]).resolve())
