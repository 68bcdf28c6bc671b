/* cpu/tl-kernels.c — the tables: one row of kernels per instruction set. */
#include "cpu/tl-kernels-private.h"

#define TABLE(isa_, name_, linear_, vector_) { \
  .isa = isa_, \
  .quantise_row = tl_quantise_row_##vector_, .linear = tl_linear_##linear_, .linear_exact = tl_linear_exact_##linear_, \
  .rms_norm = tl_rms_norm_##vector_, .layer_norm = tl_layer_norm_##vector_, .add = tl_add_##vector_, \
  .swiglu = tl_swiglu_##vector_, .geglu_tanh = tl_geglu_tanh_##vector_, .gelu_erf = tl_gelu_erf_##vector_, \
  .gelu_tanh = tl_gelu_tanh_##vector_, .relu2 = tl_relu2_##vector_, .softcap = tl_softcap_##vector_, \
  .rope = tl_rope_##vector_, .to_half = tl_to_half_##vector_, \
  .encode_row = tl_encode_row_##vector_, .decode_row = tl_decode_row_##vector_, .close_tile = tl_close_tile_##vector_, \
  .attend_split = tl_attend_split_##vector_, \
  .attend_combine = tl_attend_combine_##vector_, .argmax = tl_argmax_##vector_, .name = name_ }

static const TlKernels tables[] = {
  TABLE (TL_ISA_SCALAR, "scalar", scalar, scalar),
#ifdef __x86_64__
  TABLE (TL_ISA_AVX2, "avx2", avx2, avx2),
  TABLE (TL_ISA_AVX512, "avx512", avx512, avx512),
  TABLE (TL_ISA_VNNI, "vnni", vnni, avx512),
  TABLE (TL_ISA_AMX, "amx", amx, avx512),
#endif
};

const TlKernels *
tl_kernels_for (TlIsa isa)
{
  return tl_isa_present (isa) && isa < G_N_ELEMENTS (tables) ? &tables[isa] : NULL;
}

const TlKernels *
tl_kernels_get (GError **error)
{
  TlIsa isa;
  return tl_isa_choose (&isa, error) ? tl_kernels_for (isa) : NULL;
}
