"""The shared library from another language, with nothing but the header to go by.

usage: test_ctypes.py LIBRARY HEADER

The options struct is read from the header, so that this is about the header's promise (plain
members, no padding, size first) and not about a third copy of the list.
"""
import ctypes
import re
import sys


def struct_of(header, name):
    """A ctypes.Structure with the members of `name`, in their order."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    body = re.search(r"typedef struct %s \{(.*?)\n\} %s;" % (name, name), text, re.S).group(1)
    fields = []
    for declaration in (" ".join(d.split()) for d in body.split(";")):
        if not declaration:
            continue
        callback = re.search(r"\(\*(\w+)\)", declaration)
        member = callback.group(1) if callback else re.search(r"(\w+)$", declaration).group(1)
        if callback:
            kind = ctypes.c_void_p
        elif declaration.startswith("const char *"):
            kind = ctypes.c_char_p
        elif "*" in declaration:
            kind = ctypes.c_void_p
        else:
            kind = {"size_t": ctypes.c_size_t, "int64_t": ctypes.c_int64}[declaration.split()[0]]
        fields.append((member, kind))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def load(path):
    lib = ctypes.CDLL(path)
    texts = ["pawl_version", "pawl_code_name", "pawl_code_text", "pawl_errmsg", "pawl_errhint",
             "pawl_info_id"]
    for name in texts:
        getattr(lib, name).restype = ctypes.c_char_p
    for name in ["pawl_errmsg", "pawl_errhint", "pawl_close", "pawl_info_id"]:
        getattr(lib, name).argtypes = [ctypes.c_void_p]
    lib.pawl_start.argtypes = [ctypes.c_void_p] + 3 * [ctypes.c_char_p] + [ctypes.c_void_p]
    lib.pawl_list.argtypes = 4 * [ctypes.c_void_p]
    lib.pawl_open.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p, ctypes.c_void_p]
    lib.pawl_get_int.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64]
    lib.pawl_get_int.restype = ctypes.c_int64
    return lib


def check_codes(lib, header):
    rows = re.findall(r'X\((\w+), (\d+), \d, \d+, "([^"]*)"\)', header)
    assert len(rows) > 20
    for name, number, text in rows:
        assert lib.pawl_code_name(int(number)).decode() == "PAWL_" + name
        assert lib.pawl_code_text(int(number)).decode() == text
    return {name: int(number) for name, number, _ in rows}


def check_open(lib, header, codes):
    options_type = struct_of(header, "pawl_options")
    options = options_type(size=ctypes.sizeof(options_type), busy_ms=1000, name=b"ctypes")
    handle = ctypes.c_void_p()
    assert lib.pawl_open(ctypes.byref(handle), b"memory:", ctypes.byref(options)) == codes["OK"]
    assert lib.pawl_errmsg(handle) == b""
    assert lib.pawl_close(handle) == codes["OK"]

    options.threads = -2
    code = lib.pawl_open(ctypes.byref(handle), b"memory:", ctypes.byref(options))
    assert code == codes["INVALID"] and handle.value
    assert b"threads" in lib.pawl_errmsg(handle) and lib.pawl_errhint(handle)
    assert lib.pawl_close(handle) == codes["OK"]


def check_callback(lib, codes):
    """Callbacks get what they are told, and then their argument."""
    handle = ctypes.c_void_p()
    assert lib.pawl_open(ctypes.byref(handle), b"memory:", None) == codes["OK"]
    assert lib.pawl_start(handle, b"none", b"run-1", b"{}", None) == codes["OK"]
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def note(info, arg):
        seen.append((lib.pawl_info_id(info), arg))
        return 0

    assert lib.pawl_list(handle, None, note, 7) == codes["OK"]
    assert seen == [(b"run-1", 7)]
    assert lib.pawl_close(handle) == codes["OK"]


def check_values(lib):
    value = b'{"items":[{"cents":9007199254740993}]}'
    assert lib.pawl_get_int(value, b"/items/0/cents", -1) == 9007199254740993
    assert lib.pawl_get_int(value, b"/items/1/cents", -1) == -1
    assert lib.pawl_get_int(b"not json", b"", 7) == 7


def main():
    lib = load(sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as file:
        header = file.read()
    version = re.search(r'#define PAWL_VERSION "(.*)"', header).group(1)
    assert lib.pawl_version().decode() == version
    codes = check_codes(lib, header)
    check_open(lib, header, codes)
    check_callback(lib, codes)
    check_values(lib)


main()
