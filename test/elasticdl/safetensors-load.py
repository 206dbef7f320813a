"""Files in the safetensors format, as Python's library reads them.

Arguments: the files. Standard output: a JSON list of {metadata, tensors}, for each tensor its type, shape and bytes in hex; `numpy` has what
numpy makes of it, where it knows the type, and `same` whether the library itself would have written the tensors as they are in the file.
"""

import json
import sys

import safetensors
import safetensors.numpy


def load(path):
    with open(path, "rb") as file:
        content = file.read()
    tensors = {}
    for name, tensor in safetensors.deserialize(content):
        tensors[name] = {"dtype": tensor["dtype"], "shape": tensor["shape"], "hex": bytes(tensor["data"]).hex()}
    with safetensors.safe_open(path, framework="np") as file:
        metadata = file.metadata()
        for name in file.keys():
            if tensors[name]["dtype"] == "BF16":
                continue
            array = file.get_tensor(name)
            tensors[name]["numpy"] = {"dtype": str(array.dtype), "values": array.tolist()}
    return {"metadata": metadata, "tensors": tensors, "same": is_same(content)}


def is_same(content):
    views = {}
    for name, tensor in safetensors.deserialize(content):
        dtype = {"BF16": "bfloat16", "BOOL": "bool"}.get(tensor["dtype"]) or numpy_name(tensor["dtype"])
        views[name] = {"dtype": dtype, "shape": tensor["shape"], "data": bytes(tensor["data"])}
    return split(safetensors.serialize(views)) == split(content)


def numpy_name(dtype):
    kind = {"F": "float", "I": "int", "U": "uint"}[dtype[0]]
    return kind + dtype[1:]


def split(content):
    """The header without metadata and padding, in its order, and what comes after it; the two are aligned."""
    length = int.from_bytes(content[:8], "little")
    assert length % 8 == 0
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    return list(header.items()), content[8 + length :]


json.dump([load(path) for path in sys.argv[1:]], sys.stdout)
