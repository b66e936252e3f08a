"""To a type checker these are the standard library's, which they mean."""

from dataclasses import MISSING as MISSING
from dataclasses import asdict as asdict
from dataclasses import dataclass as dataclass
from dataclasses import field as field
from dataclasses import fields as fields
from dataclasses import replace as replace
