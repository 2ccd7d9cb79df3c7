# What the scripts of the findings page share. Expects PYTHON (and OTHER), a Python with a release of
# MindSpore for Ascend and the stand-ins: build/mindspore-ascend/RELEASE/python.
cat > net.py <<'EOF'
import sys
import numpy as np
from mindspore import Tensor, context, nn, ops

context.set_context(mode=context.GRAPH_MODE, device_target="Ascend")

class Net(nn.Cell):
    def __init__(self, operator):
        super().__init__()
        self.operator = operator

    def construct(self, data):
        return self.operator(data)

for name in sys.argv[1:]:
    network = Net(getattr(ops, name)())
    print(name, network(Tensor(np.array([1, 4, 9], np.float32))))
EOF
export ASCENDCACHE_STANDIN_LOG=$PWD/log
report() { echo "exit $?, compiled: $(grep -c '"compile"' log)"; }
start() { : > log; $PYTHON net.py "$@" 2> said; report; }  # one start, and what it compiled
ran() { grep '"run"' log | grep -o "\"$1\": [^,}]*" | sort -u; }  # of the bytes that were executed
K=rank_0/kernel_meta
hold() {  # POINT: a start whose compiler stops there; GROUP is its process group, SERVER the compiler
  rm -rf gate && mkdir gate && mkfifo gate/reached gate/go
  ASCENDCACHE_STANDIN_HOLD=$1:$PWD/gate setsid env --default-signal=INT $PYTHON net.py ${2:-Square} > said 2>&1 & GROUP=$!
  read -r -n 1 < gate/reached; SERVER=$(cat gate/pid); }
ends() { wait $GROUP 2> said; echo "stopped, exit $?"; }
