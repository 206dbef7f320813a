/** From messages to TypeScript: the text of `src/generated.ts`. What the codec does not know is an error here, not at run time. */

import protobuf from 'protobufjs';

/**
 * Message fields that are always there. proto3 has no way to say so for a message field (all others have a default), and a reader that
 * had to expect a receipt without an id would be the worse for it.
 */
const ALWAYS_PRESENT: ReadonlySet<string> = new Set([
  'CatalogEntry.transaction',
  'CatalogEntry.state',
  'Checkpoint.id',
  'FileList.id',
  'PageRef.first',
  'PageRef.last',
  'Manifest.id',
  'ReadLease.id',
  'Receipt.id',
  'Removed.id',
  'Upload.id',
]);

/** A name in the list that fits no field would be a promise that nobody keeps. */
function assertAlwaysPresent(messages: readonly protobuf.Type[]): void {
  for (const name of ALWAYS_PRESENT) {
    const [messageName, fieldName] = name.split('.');
    const message = messages.find((type) => type.name === messageName);
    const field = fieldName === undefined ? undefined : message?.fields[fieldName];
    const isOne = field?.resolvedType instanceof protobuf.Type && !field.repeated;
    if (message !== undefined && !isOne)
      throw new Error(`${name} is to be always present, but is no message field`);
  }
}

const SCALARS: ReadonlySet<string> = new Set(['string', 'bool', 'bytes', 'uint32', 'double', 'int64']);

interface FieldFacts {
  readonly name: string;
  readonly type: string;
  readonly repeated: boolean;
  readonly mapKey: string | undefined;
  readonly required: boolean;
  readonly comment: string | null;
}

/** The name of a field in JSON, by proto3's rule: each '_' goes, and the letter after it becomes upper case. */
export function jsonName(name: string): string {
  return name.replace(/_(.)/g, (_match, next: string) => next.toUpperCase());
}

function typeOf(field: protobuf.Field): string {
  if (field.resolvedType) return field.resolvedType.name;
  if (!SCALARS.has(field.type))
    throw new Error(`${field.fullName}: the codec does not know the type ${field.type}`);
  if (field.type !== 'int64') return field.type;
  const jstype: unknown = field.options?.['jstype'];
  if (jstype === 'JS_NUMBER') return 'int64-number';
  if (jstype === 'JS_STRING') return 'int64-bigint';
  throw new Error(`${field.fullName}: an int64 needs jstype = JS_NUMBER or JS_STRING`);
}

function factsOf(field: protobuf.Field): FieldFacts {
  if (field.partOf !== null) throw new Error(`${field.fullName}: the codec does not know oneof and optional`);
  const isMap = field instanceof protobuf.MapField;
  if (isMap && field.keyType !== 'string' && field.keyType !== 'uint32') {
    throw new Error(`${field.fullName}: the codec does not know map keys of type ${field.keyType}`);
  }
  return {
    name: jsonName(field.name),
    type: typeOf(field),
    repeated: field.repeated,
    mapKey: isMap ? field.keyType : undefined,
    required: ALWAYS_PRESENT.has(`${field.parent?.name}.${field.name}`),
    comment: field.comment,
  };
}

const TYPESCRIPT_TYPES: Readonly<Record<string, string>> = {
  string: 'string',
  bool: 'boolean',
  bytes: 'Uint8Array',
  uint32: 'number',
  double: 'number',
  'int64-number': 'number',
  'int64-bigint': 'bigint',
};

function declaration(field: FieldFacts): string {
  const scalar = TYPESCRIPT_TYPES[field.type];
  const type = scalar ?? field.type;
  if (field.mapKey !== undefined) return `readonly ${field.name}: Readonly<Record<string, ${type}>>;`;
  if (field.repeated) return `readonly ${field.name}: readonly ${type}[];`;
  return `readonly ${field.name}: ${type};`;
}

/** Message fields may be absent; so may `format`, which the codec fills in. */
function declarationOf(field: FieldFacts, isMessage: boolean): string {
  const mayBeAbsent = isMessage && !field.repeated && field.mapKey === undefined && !field.required;
  return mayBeAbsent ? `readonly ${field.name}?: ${field.type} | undefined;` : declaration(field);
}

function docComment(text: string | null, indent: string): string {
  if (text === null || text === '') return '';
  const lines = text.split('\n').map((line) => line.trim());
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}`.trimEnd()).join('\n')}\n${indent} */\n`;
}

function interfaceOf(message: protobuf.Type): string {
  const fields = message.fieldsArray.map((field) => {
    const facts = factsOf(field);
    const isMessage = field.resolvedType instanceof protobuf.Type;
    return `${docComment(facts.comment, '  ')}  ${declarationOf(facts, isMessage)}\n`;
  });
  return `${docComment(message.comment, '')}export interface ${message.name} {\n${fields.join('')}}\n`;
}

function enumOf(type: protobuf.Enum): string {
  const members = Object.keys(type.values).map((name) => `'${name}'`);
  return `${docComment(type.comment, '')}export type ${type.name} = ${members.join(' | ')};\n`;
}

function schemaOfMessage(message: protobuf.Type): string {
  const fields = message.fieldsArray.map((field) => {
    const facts = factsOf(field);
    const kind =
      field.resolvedType === null
        ? 'scalar'
        : field.resolvedType instanceof protobuf.Enum
          ? 'enum'
          : 'message';
    const parts = [`name: '${facts.name}'`, `kind: '${kind}'`, `type: '${facts.type}'`];
    if (facts.repeated) parts.push('repeated: true');
    if (facts.mapKey !== undefined) parts.push(`mapKey: '${facts.mapKey}'`);
    if (facts.required) parts.push('required: true');
    return `    { ${parts.join(', ')} },\n`;
  });
  return `  ${message.name}: [\n${fields.join('')}  ],\n`;
}

const SCHEMA_TYPES = `/** A field as the codec sees it. \`int64-number\` is a safe integer, \`int64-bigint\` a bigint; \`mapKey\` makes it a map. */
export interface FieldSchema {
  /** In TypeScript and in JSON. */
  readonly name: string;
  readonly kind: 'scalar' | 'enum' | 'message';
  /** A scalar type, or the name of an enum or message. */
  readonly type: string;
  readonly repeated?: boolean;
  readonly mapKey?: 'string' | 'uint32';
  /** A message field that is never absent. */
  readonly required?: boolean;
}
`;

/** `root` is parsed with `keepCase` and `alternateCommentMode` and is resolved. The text depends on nothing else. */
export function render(root: protobuf.Root): string {
  const namespace = root.lookup('holdfast.v1');
  if (!(namespace instanceof protobuf.Namespace)) throw new Error('no package holdfast.v1 in proto/');
  const types = namespace.nestedArray.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const enums = types.filter((type) => type instanceof protobuf.Enum);
  const messages = types.filter((type) => type instanceof protobuf.Type);
  for (const message of messages) {
    if (message.nestedArray.length > 0)
      throw new Error(`${message.fullName}: the generator does not know nested types`);
  }
  assertAlwaysPresent(messages);
  const values = enums.map(
    (type) =>
      `  ${type.name}: [${Object.keys(type.values)
        .map((name) => `'${name}'`)
        .join(', ')}],\n`,
  );
  return [
    '// Generated from proto/holdfast/v1 by `pnpm --filter @holdfast/wire generate`. Do not edit.\n',
    ...enums.map(enumOf),
    ...messages.map(interfaceOf),
    SCHEMA_TYPES,
    `/** Values of each enum; the first is the default. */\nexport const ENUMS: Readonly<Record<string, readonly string[]>> = {\n${values.join('')}};\n`,
    `/** Fields of each message, in the order of the .proto. */\nexport const MESSAGES: Readonly<Record<string, readonly FieldSchema[]>> = {\n${messages.map(schemaOfMessage).join('')}};\n`,
  ].join('\n');
}
