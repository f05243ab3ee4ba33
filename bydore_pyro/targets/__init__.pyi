from .request import Request as Request
from .request import Score as Score
from .request import Task as Task
