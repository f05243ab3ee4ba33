from .evaluate import TOKENIZER_FILES as TOKENIZER_FILES
from .evaluate import EvaluationConfig as EvaluationConfig
from .evaluate import evaluate_model as evaluate_model
from .evaluate import require_lm_eval as require_lm_eval
from .evaluate import scores_table as scores_table
