/* engine/decode/tl-generation.c — TlToken and TlGeneration: plain results with getters. */
#include "decode/tl-generator-private.h"
#include "decode/tl-token-stats.h"

struct _TlGeneration
{
  GObject parent;
  GBytes *tokens;
  GPtrArray *generated;         /* of TlToken */
  char *text;
  TlFinishReason finish;
  TlGenerationFigures figures;
};

G_DEFINE_FINAL_TYPE (TlGeneration, tl_generation, G_TYPE_OBJECT)
G_DEFINE_BOXED_TYPE (TlToken, tl_token, tl_token_copy, tl_token_free)

static const GEnumValue finish_values[] = {
  { TL_FINISH_NONE, "TL_FINISH_NONE", "none" },
  { TL_FINISH_LENGTH, "TL_FINISH_LENGTH", "length" },
  { TL_FINISH_STOP, "TL_FINISH_STOP", "stop" },
  { TL_FINISH_EOS, "TL_FINISH_EOS", "eos" },
  { TL_FINISH_GRAMMAR_COMPLETE, "TL_FINISH_GRAMMAR_COMPLETE", "grammar-complete" },
  { TL_FINISH_CANCELLED, "TL_FINISH_CANCELLED", "cancelled" },
  { TL_FINISH_DOWNSTREAM_EOS, "TL_FINISH_DOWNSTREAM_EOS", "downstream-eos" },
  { TL_FINISH_ERROR, "TL_FINISH_ERROR", "error" },
  { 0, NULL, NULL }
};

GType
tl_finish_reason_get_type (void)
{
  static gsize type = 0;
  if (g_once_init_enter (&type))
    g_once_init_leave (&type, g_enum_register_static ("TlFinishReason", finish_values));
  return type;
}

const char *
tl_finish_reason_to_string (TlFinishReason reason)
{
  g_return_val_if_fail (reason <= TL_FINISH_ERROR, "none");
  return finish_values[reason].value_nick;
}

TlToken *
tl_token_copy (const TlToken *token)
{
  TlToken *copy = g_memdup2 (token, sizeof *token);
  if (copy->stats)
    tl_token_stats_ref (copy->stats);
  return copy;
}

void
tl_token_free (TlToken *token)
{
  g_clear_pointer (&token->stats, tl_token_stats_unref);
  g_free (token);
}

guint
tl_token_get_n_alternatives (const TlToken *token)
{
  const TlTokenStats *stats = token->stats;
  return stats ? stats->n_alternatives : 0;
}

gint32
tl_token_get_alternative_id (const TlToken *token, guint index)
{
  g_return_val_if_fail (index < tl_token_get_n_alternatives (token), -1);
  return ((const TlTokenStats *) token->stats)->alternatives[index].id;
}

double
tl_token_get_alternative_logprob (const TlToken *token, guint index)
{
  g_return_val_if_fail (index < tl_token_get_n_alternatives (token), 0);
  return ((const TlTokenStats *) token->stats)->alternatives[index].logprob;
}

static void
tl_generation_finalize (GObject *object)
{
  TlGeneration *self = TL_GENERATION (object);
  g_bytes_unref (self->tokens);
  g_ptr_array_unref (self->generated);
  g_free (self->text);
  G_OBJECT_CLASS (tl_generation_parent_class)->finalize (object);
}

static void
tl_generation_class_init (TlGenerationClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = tl_generation_finalize;
}

static void
tl_generation_init (TlGeneration *self)
{
}

/* takes tokens, generated and text */
TlGeneration *
tl_generation_new (GBytes *tokens, GPtrArray *generated, char *text, TlFinishReason finish, const TlGenerationFigures *figures)
{
  TlGeneration *self = g_object_new (TL_TYPE_GENERATION, NULL);
  self->tokens = tokens;
  self->generated = generated;
  self->text = text;
  self->finish = finish;
  self->figures = *figures;
  return self;
}

GBytes *
tl_generation_get_tokens_bytes (TlGeneration *self)
{
  g_return_val_if_fail (TL_IS_GENERATION (self), NULL);
  return self->tokens;
}

guint
tl_generation_get_n_tokens (TlGeneration *self)
{
  g_return_val_if_fail (TL_IS_GENERATION (self), 0);
  return self->generated->len;
}

TlToken *
tl_generation_get_token (TlGeneration *self, guint index)
{
  g_return_val_if_fail (TL_IS_GENERATION (self) && index < self->generated->len, NULL);
  return tl_token_copy (g_ptr_array_index (self->generated, index));
}

const char *
tl_generation_get_text (TlGeneration *self)
{
  g_return_val_if_fail (TL_IS_GENERATION (self), NULL);
  return self->text;
}

TlFinishReason
tl_generation_get_finish_reason (TlGeneration *self)
{
  g_return_val_if_fail (TL_IS_GENERATION (self), TL_FINISH_NONE);
  return self->finish;
}

void
tl_generation_get_figures (TlGeneration *self, TlGenerationFigures *figures)
{
  g_return_if_fail (TL_IS_GENERATION (self) && figures);
  *figures = self->figures;
}
