/* engine/score/tl-scores.c — TlScores: a counted list of named tensors. */
#include "score/tl-scores.h"

typedef struct { const char *name; TlTensor *tensor; } Entry;

struct _TlScores
{
  gint ref_count;
  GArray *entries;              /* of Entry */
};

G_DEFINE_BOXED_TYPE (TlScores, tl_scores, tl_scores_ref, tl_scores_unref)

static void
entry_clear (gpointer entry)
{
  tl_tensor_unref (((Entry *) entry)->tensor);
}

TlScores *
tl_scores_new (void)
{
  TlScores *self = g_new0 (TlScores, 1);
  self->ref_count = 1;
  self->entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  g_array_set_clear_func (self->entries, entry_clear);
  return self;
}

TlTensor *
tl_scores_add (TlScores *self, const char *name, TlTensor *tensor)
{
  Entry entry = { name, tensor };
  if (tensor)
    g_array_append_val (self->entries, entry);
  return tensor;
}

TlScores *
tl_scores_ref (TlScores *self)
{
  g_atomic_int_inc (&self->ref_count);
  return self;
}

void
tl_scores_unref (TlScores *self)
{
  if (!g_atomic_int_dec_and_test (&self->ref_count))
    return;
  g_array_unref (self->entries);
  g_free (self);
}

guint
tl_scores_get_n (TlScores *self)
{
  return self->entries->len;
}

const char *
tl_scores_get_name (TlScores *self, guint index)
{
  g_return_val_if_fail (index < self->entries->len, NULL);
  return g_array_index (self->entries, Entry, index).name;
}

TlTensor *
tl_scores_get_tensor (TlScores *self, guint index)
{
  g_return_val_if_fail (index < self->entries->len, NULL);
  return tl_tensor_ref (g_array_index (self->entries, Entry, index).tensor);
}
