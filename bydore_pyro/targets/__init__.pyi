from .harness import EXAMPLES_SEED as EXAMPLES_SEED
from .harness import quiet_lm_eval as quiet_lm_eval
from .hub_data import read_split as read_split
from .lm_eval_tasks import right_choices as right_choices
from .lm_eval_tasks import tasks_of as tasks_of
from .request import Request as Request
from .request import Score as Score
from .request import Task as Task
