from controller.configuration import ServeSettings as ServeSettings
from controller.database import DatabaseInUseError as DatabaseInUseError
from controller.database import DatabaseUnusableError as DatabaseUnusableError
from controller.database import upgrade_database as upgrade_database
from controller.serving.server import serve as serve
