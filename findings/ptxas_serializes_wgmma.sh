#!/usr/bin/env bash
# ptxas 13.0.88 makes asynchronous products (wgmma) wait for each other, and no option makes that an
# error.
#
# A kernel reads a sum of a wgmma before it has waited for it. ptxas puts a wait and an arrival beside
# every product (C7517, C7519), so that the kernel is right and several times slower, and says so as
# "info": nvcc -Werror all-warnings and ptxas -Werror exit with 0. It also names a reason that is none
# here: "insufficient register resources" (C7511), for a kernel that needs fewer than 32 of its 255
# registers. A build that must not ship such kernels has to read the compiler's output.
#
# Seen with: nvidia-cuda-nvcc 13.0.88, nvidia-nvvm 13.0.88, nvidia-cuda-crt 13.0.88,
# nvidia-cuda-runtime 13.0.96 of PyPI, g++ 12. Needs python3 with venv and g++; no GPU.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check nvidia-cuda-nvcc==13.0.88 \
  nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96
toolkit=$(echo "$work"/venv/lib/python3*/site-packages/nvidia/cu13)
chmod +x "$toolkit"/bin/* "$toolkit"/nvvm/bin/*

cat > "$work/products.cu" <<'CODE'
#include <cstdint>
__global__ void Products(float* out, uint64_t a, uint64_t b) {
  float sums[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int i = 0; i < 4; ++i) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
        "{%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "l"(a), "l"(b));
    sums[0] += 1.0f;  // the product may not have ended
  }
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  out[threadIdx.x] = sums[0] + sums[1] + sums[2] + sums[3];
}
CODE

status=0
"$toolkit/bin/nvcc" -arch=sm_90a -cubin -O3 -Werror all-warnings -Xptxas -Werror -Xptxas -v \
  "$work/products.cu" -o "$work/products.cubin" > "$work/output" 2>&1 || status=$?
grep -v '^ptxas info.*bytes stack frame' "$work/output" || true

fail() {
  echo "Changed: $1"
  exit 1
}
((status == 0)) || fail "the exit code is $status, no longer 0"
for message in C7511 C7517 C7519; do
  grep -q "ptxas info *: ($message)" "$work/output" || fail "no message $message of the kind info"
done
registers=$(sed -n 's/.*Used \([0-9]*\) registers.*/\1/p' "$work/output" | head -n 1)
((registers < 32)) || fail "the kernel uses $registers registers, no longer fewer than 32"
echo "As found: exit code 0, C7511, C7517 and C7519 as info, $registers registers."
