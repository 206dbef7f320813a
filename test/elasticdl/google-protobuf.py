"""Models as the bytes of google.protobuf, with messages that protoc makes of our own .proto files.

Argument: the folder with the .proto files. Standard input: a JSON list of {form, version, infos, dense, tables}; elements and ids come
in base64, types as numbers. Standard output: a JSON list of the files, in base64.
"""

import base64
import glob
import json
import os
import sys
import tempfile

import numpy
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc


def messages(proto_root):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "set")
        files = sorted(glob.glob(os.path.join(proto_root, "elasticdl", "*.proto")))
        status = protoc.main(["protoc", "-I" + proto_root, "--descriptor_set_out=" + path, *files])
        if status != 0:
            sys.exit("protoc ended with status %d" % status)
        with open(path, "rb") as file:
            descriptors = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    # Imported files are in the set too, possibly after the files that import them.
    pool = descriptor_pool.DescriptorPool()
    by_name = {file.name: file for file in descriptors.file}

    def add(name):
        file = by_name.pop(name, None)
        if file is not None:
            for dependency in file.dependency:
                add(dependency)
            pool.Add(file)

    for name in list(by_name):
        add(name)
    return lambda form: message_factory.GetMessageClass(
        pool.FindMessageTypeByName("elasticdl.%s.Model" % form.lower())
    )


def content(value):
    return base64.b64decode(value)


def ids_of(table):
    return numpy.frombuffer(content(table["ids"]), "<i8").tolist()


def add_infos(infos, field):
    for info in infos:
        added = field.add(name=info["name"], dim=info["dim"], initializer=info["initializer"])
        if info["dtype"]:
            added.dtype = info["dtype"]


def fill_tensor(tensor, shape, variable, data, ids):
    tensor.dim.extend(shape)
    tensor.content = content(data)
    if hasattr(tensor, "dtype"):
        tensor.dtype = variable["dtype"]
    if ids:
        tensor.indices.extend(ids)


def fill_params(model, case):
    is_map = hasattr(model.param, "keys")
    entries = [(it, it["shape"], it["data"], []) for it in case["dense"]]
    entries += [(it, [len(ids_of(it)), it["dim"]], it["values"], ids_of(it)) for it in case["tables"]]
    for variable, shape, data, ids in entries:
        name = variable["name"]
        fill_tensor(model.param[name] if is_map else model.param.add(name=name), shape, variable, data, ids)


def fill_tensor_proto(tensor, shape, variable, data):
    # Follows ElasticDL's serialize_ndarray.
    tensor.dtype = variable["dtype"]
    tensor.tensor_content = content(data)
    for size in shape:
        tensor.tensor_shape.dim.add().size = size


def fill_maps(model, case):
    for variable in case["dense"]:
        tensor = model.dense_parameters[variable["name"]]
        fill_tensor_proto(tensor, variable["shape"], variable, variable["data"])
    for table in case["tables"]:
        slices = model.embedding_tables[table["name"]]
        ids = ids_of(table)
        fill_tensor_proto(slices.concat_tensors, [len(ids), table["dim"]], table, table["values"])
        slices.ids.extend(ids)


def serialized(case, message_of):
    model = message_of(case["form"])()
    model.version = case["version"]
    if hasattr(model, "embedding_table_infos"):
        add_infos(case["infos"], model.embedding_table_infos)
    elif hasattr(model, "embedding_table_info"):
        add_infos(case["infos"], model.embedding_table_info)
    if hasattr(model, "param"):
        fill_params(model, case)
    else:
        fill_maps(model, case)
    return model.SerializeToString(deterministic=True)


message_of = messages(sys.argv[1])
files = [serialized(case, message_of) for case in json.load(sys.stdin)]
json.dump([base64.b64encode(file).decode() for file in files], sys.stdout)
