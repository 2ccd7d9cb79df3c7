GRAPH_MODE, PYNATIVE_MODE = 0, 1
SETTINGS = {"device_id": 0}


def set_context(**settings):
    SETTINGS.update(settings)
