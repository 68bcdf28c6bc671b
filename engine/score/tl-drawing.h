/* score/tl-drawing.h — scores as drawings: where, on its way down the loops, the model made up its mind.
 *
 * Self-contained SVG, depth downwards and positions to the right, in bands like lines of a text. Called by the command and
 * by bindings.
 */
#pragma once

#include "score/tl-tensor.h"
#include "text/tl-tokenizer.h"

G_BEGIN_DECLS

/**
 * tl_draw_logit_lens:
 * @lens: float32 [loops × ids × vocabulary], a model's logit lens
 * @ids: the ids that it was made from, native int32
 * @tokenizer: (nullable): names the ids, else they stand as numbers
 * @error: %TL_ERROR_INVALID_ARGUMENT when the shapes do not fit
 *
 * Draws the likeliest next token after every loop, with its probability as number and colour, and the final ones again
 * below. A line marks in every column the loop from which on the likeliest token is the final one. Beyond 512 positions
 * the drawing ends with a note.
 *
 * Returns: (transfer full): an SVG document
 */
TL_API char *tl_draw_logit_lens (TlTensor *lens, GBytes *ids, TlTokenizer *tokenizer, GError **error);

/**
 * tl_draw_uncertainty:
 * @kl: float32 [ids × loops − 1], the divergences between a loop and the one before it, in nats
 * @ids: the ids that it was made from, native int32
 * @tokenizer: (nullable): names the ids, else they stand as numbers
 * @error: %TL_ERROR_INVALID_ARGUMENT when the shapes do not fit
 *
 * Draws a heat map of how much every loop still changed the distribution of the next token, on a logarithmic scale from
 * 0.001 to 10 nats, and the mean over the loops below. Beyond 512 positions the drawing ends with a note.
 *
 * Returns: (transfer full): an SVG document
 */
TL_API char *tl_draw_uncertainty (TlTensor *kl, GBytes *ids, TlTokenizer *tokenizer, GError **error);

G_END_DECLS
