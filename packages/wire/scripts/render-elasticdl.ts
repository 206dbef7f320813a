/** From ElasticDL's messages to TypeScript: the text of `src/elasticdl.ts`, numbers of fields and types and nothing else. */

import protobuf from 'protobufjs';
import { jsonName } from './render.ts';

type Numbers = Readonly<Record<string, number>>;

function constant(name: string, doc: string, body: string): string {
  return `/** ${doc} */\nexport const ${name} = ${body} as const;\n`;
}

/** Every object on lines of its own, as the formatter leaves it. */
function literal(entries: Readonly<Record<string, string | number>>, indent: string): string {
  const lines = Object.entries(entries).map(([name, value]) => `${indent}  ${name}: ${value},\n`);
  return `{\n${lines.join('')}${indent}}`;
}

function namespaceOf(root: protobuf.Root, path: string): protobuf.Namespace {
  const found = root.lookup(path);
  if (!(found instanceof protobuf.Namespace)) throw new Error(`no package ${path} in proto/`);
  return found;
}

/** With those inside them, by their own names. */
function messagesOf(namespace: protobuf.NamespaceBase): protobuf.Type[] {
  return namespace.nestedArray
    .filter((type) => type instanceof protobuf.Type)
    .flatMap((type) => [type, ...messagesOf(type)]);
}

function fieldNumbers(message: protobuf.Type): Numbers {
  return Object.fromEntries(message.fieldsArray.map((field) => [jsonName(field.name), field.id]));
}

function renderMessages(namespace: protobuf.Namespace, indent: string): string {
  const messages = messagesOf(namespace).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const entries = messages.map((message) => [message.name, literal(fieldNumbers(message), `${indent}  `)]);
  return literal(Object.fromEntries(entries), indent);
}

function renderForms(elasticdl: protobuf.Namespace): string {
  const forms = elasticdl.nestedArray
    .filter((nested) => /^s\d/.test(nested.name))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map((nested) => [
      `S${nested.name.slice(1)}`,
      renderMessages(namespaceOf(elasticdl.root, nested.fullName), '  '),
    ]);
  if (forms.length === 0) throw new Error('no form of ElasticDL in proto/');
  return literal(Object.fromEntries(forms), '');
}

/** `root` is parsed with `keepCase` and is resolved. The text depends on nothing else. */
export function renderElasticdl(root: protobuf.Root): string {
  const elasticdl = namespaceOf(root, 'elasticdl');
  const tensorflow = namespaceOf(root, 'elasticdl.tensorflow');
  return [
    '/** Generated from proto/elasticdl by `pnpm --filter @holdfast/wire generate`. Do not edit. */\n',
    constant(
      'FORMS',
      'Numbers of fields: by form, message and name. `param` is a map up to S2.',
      renderForms(elasticdl),
    ),
    constant(
      'TENSORFLOW',
      "Numbers of fields in TensorFlow's messages, from S6 on.",
      renderMessages(tensorflow, ''),
    ),
    constant(
      'TENSOR_DTYPES',
      "ElasticDL's own numbers for types, up to S4.",
      literal(elasticdl.lookupEnum('TensorDtype').values, ''),
    ),
    constant(
      'DATA_TYPES',
      "TensorFlow's numbers for types, from S5 on, in the same fields.",
      literal(tensorflow.lookupEnum('DataType').values, ''),
    ),
  ].join('\n');
}
