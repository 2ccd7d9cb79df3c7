#!/bin/bash
# Another atc that is only different. Speaks Chinese before and after, and puts everything on standard error.
. "${BASH_SOURCE%/*}/arguments"
printf '[信息] 开始编译, 缓存模式: %s\n' "$(opt op_compiler_cache_mode)" >&2
"$REAL" "${ARGS[@]}" >&2
status=$?
[ $status -eq 0 ] && echo '[信息] 编译成功' >&2 || echo '[错误] 编译失败' >&2
exit $status
