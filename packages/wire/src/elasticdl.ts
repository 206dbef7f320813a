/** Generated from proto/elasticdl by `pnpm --filter @holdfast/wire generate`. Do not edit. */

/** Numbers of fields: by form, message and name. `param` is a map up to S2. */
export const FORMS = {
  S0: {
    Model: {
      version: 1,
      param: 2,
    },
    Tensor: {
      dim: 1,
      content: 2,
    },
  },
  S1: {
    Model: {
      version: 1,
      param: 2,
    },
    Tensor: {
      dim: 1,
      content: 2,
      indices: 3,
    },
  },
  S2: {
    Model: {
      version: 1,
      param: 2,
    },
    Tensor: {
      dim: 1,
      content: 2,
      indices: 3,
      dtype: 4,
    },
  },
  S2a: {
    Model: {
      version: 1,
      param: 2,
    },
    Tensor: {
      dim: 1,
      content: 2,
      indices: 3,
      dtype: 4,
      name: 5,
    },
  },
  S3: {
    Model: {
      version: 1,
      param: 2,
    },
    Tensor: {
      name: 1,
      dim: 2,
      content: 3,
      indices: 4,
      dtype: 5,
    },
  },
  S4: {
    EmbeddingTableInfo: {
      name: 1,
      dim: 2,
      initializer: 3,
    },
    Model: {
      version: 1,
      param: 2,
      embeddingTableInfo: 3,
    },
    Tensor: {
      name: 1,
      dim: 2,
      content: 3,
      indices: 4,
      dtype: 5,
    },
  },
  S5: {
    EmbeddingTableInfo: {
      name: 1,
      dim: 2,
      initializer: 3,
      dtype: 4,
    },
    Model: {
      version: 1,
      param: 2,
      embeddingTableInfo: 3,
    },
    Tensor: {
      name: 1,
      dim: 2,
      content: 3,
      indices: 4,
      dtype: 5,
    },
  },
  S6: {
    EmbeddingTableInfo: {
      name: 1,
      dim: 2,
      initializer: 3,
      dtype: 4,
    },
    IndexedSlicesProto: {
      concatTensors: 1,
      ids: 2,
    },
    Model: {
      version: 1,
      embeddingTableInfo: 3,
      denseParameters: 4,
      embeddingTables: 5,
    },
  },
  S7: {
    EmbeddingTableInfo: {
      name: 1,
      dim: 2,
      initializer: 3,
      dtype: 4,
    },
    IndexedSlicesProto: {
      concatTensors: 1,
      ids: 2,
    },
    Model: {
      version: 1,
      embeddingTableInfos: 2,
      denseParameters: 3,
      embeddingTables: 4,
    },
  },
} as const;

/** Numbers of fields in TensorFlow's messages, from S6 on. */
export const TENSORFLOW = {
  Dim: {
    size: 1,
    name: 2,
  },
  TensorProto: {
    dtype: 1,
    tensorShape: 2,
    versionNumber: 3,
    tensorContent: 4,
  },
  TensorShapeProto: {
    dim: 2,
    unknownRank: 3,
  },
} as const;

/** ElasticDL's own numbers for types, up to S4. */
export const TENSOR_DTYPES = {
  DT_INVALID: 0,
  DT_INT8: 1,
  DT_INT16: 2,
  DT_INT32: 3,
  DT_INT64: 4,
  DT_FLOAT16: 5,
  DT_FLOAT32: 6,
  DT_FLOAT64: 7,
  DT_BOOL: 8,
} as const;

/** TensorFlow's numbers for types, from S5 on, in the same fields. */
export const DATA_TYPES = {
  DT_INVALID: 0,
  DT_FLOAT: 1,
  DT_DOUBLE: 2,
  DT_INT32: 3,
  DT_UINT8: 4,
  DT_INT16: 5,
  DT_INT8: 6,
  DT_STRING: 7,
  DT_COMPLEX64: 8,
  DT_INT64: 9,
  DT_BOOL: 10,
  DT_QINT8: 11,
  DT_QUINT8: 12,
  DT_QINT32: 13,
  DT_BFLOAT16: 14,
  DT_QINT16: 15,
  DT_QUINT16: 16,
  DT_UINT16: 17,
  DT_COMPLEX128: 18,
  DT_HALF: 19,
} as const;
