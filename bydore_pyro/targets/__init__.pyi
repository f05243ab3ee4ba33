from .request import Request as Request
from .request import Score as Score
from .request import Task as Task
from .told import Told as Told
from .told import lines_of as lines_of
from .told import requests_sha256 as requests_sha256
from .told import told_of as told_of
from .told import without_examples as without_examples
