/* score/tl-scores.h — TlScores: named tensors that belong together, as a score with more than one result gives them.
 *
 * Reference-counted and boxed; made by tl-score.c, read by callers and bindings.
 */
#pragma once

#include "score/tl-tensor.h"

G_BEGIN_DECLS

/**
 * TlScores:
 *
 * Tensors by name.
 */
typedef struct _TlScores TlScores;

TL_API GType tl_scores_get_type (void) G_GNUC_CONST;
#define TL_TYPE_SCORES (tl_scores_get_type ())

/**
 * tl_scores_new: (skip)
 *
 * Inside the library only.
 *
 * Returns: (transfer full): no tensors yet
 */
TlScores *tl_scores_new (void);
/**
 * tl_scores_add: (skip)
 * @self: scores
 * @name: a literal
 * @tensor: (transfer full) (nullable): a tensor
 *
 * Inside the library only.
 *
 * Returns: (transfer none): @tensor, so that one check for %NULL at the end is enough
 */
TlTensor *tl_scores_add (TlScores *self, const char *name, TlTensor *tensor);

/**
 * tl_scores_ref: (skip)
 * @self: scores
 *
 * Returns: (transfer full): @self
 */
TL_API TlScores *tl_scores_ref (TlScores *self);
/**
 * tl_scores_unref: (skip)
 * @self: (transfer full): scores
 */
TL_API void tl_scores_unref (TlScores *self);

/**
 * tl_scores_get_n:
 * @self: scores
 *
 * Returns: how many tensors there are
 */
TL_API guint tl_scores_get_n (TlScores *self);

/**
 * tl_scores_get_name:
 * @self: scores
 * @index: below tl_scores_get_n()
 *
 * Returns: (transfer none): the tensor's name
 */
TL_API const char *tl_scores_get_name (TlScores *self, guint index);

/**
 * tl_scores_get_tensor:
 * @self: scores
 * @index: below tl_scores_get_n()
 *
 * Returns: (transfer full): the tensor, which may outlive @self
 */
TL_API TlTensor *tl_scores_get_tensor (TlScores *self, guint index);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TlScores, tl_scores_unref)

G_END_DECLS
