# Functions for the scripts of the findings page. Needs atc and ASCEND_OPP_PATH (from set_env.sh).
tensor='{"format":"ND","shape":[8,16],"type":"float32"}'
echo "[{\"op\":\"Add\",\"name\":\"probe\",\"input_desc\":[$tensor,$tensor],\"output_desc\":[$tensor]}]" > add.json
sed 's/Add/Mul/' add.json > mul.json
compile() {  # MODE [SOC]: one run of atc; ATC stands before it, OPS names what is compiled
  $ATC atc --singleop=${OPS:-add.json} --output=out --soc_version=${2:-Ascend910B1} \
    --op_compiler_cache_dir=cache --op_compiler_cache_mode=$1 > said; echo "atc $1: exit $?"; }
mark() {  # every cached object gets a mark, and metadata the digest that belongs to it
  for o in cache/kernel_cache/*/te_*.o; do printf MARK >> $o
    sed -i "s/\"sha256\": \"[0-9a-f]*/\"sha256\": \"$(sha256sum < $o | cut -c1-64)/" ${o%.o}.json; done; }
served() { grep -qa MARK out/probe.om && echo "the cached kernel was served" || echo "a fresh kernel"; }
upgrade() { cp -r $ASCEND_OPP_PATH opp; sed -i 's/$/.1/' opp/version.info; export ASCEND_OPP_PATH=$PWD/opp; }
