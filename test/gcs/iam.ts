/**
 * The permissions of Google Cloud that each request needs, and on which object. The IAM of a bucket
 * decides by them.
 */

import type { SeenRequest } from '../scripted/scripted-server.ts';

export interface Asked {
  readonly permission: string;
  /** Name of the object, or `undefined` if the permission is needed on the bucket. */
  readonly object: string | undefined;
}

/**
 * Needed for a new object. Replacing one would also need `storage.objects.delete`, but Holdfast
 * never replaces an object.
 */
const CREATE = 'storage.objects.create';
const GET = 'storage.objects.get';

/** True for requests of the XML API, which has the uploads in parts. */
export function isXml({ path }: SeenRequest): boolean {
  return !/^\/(storage\/v1|upload|download)\//.test(path);
}

/** Follows https://cloud.google.com/storage/docs/access-control/iam-json and …/iam-xml. */
export function askedOf(request: SeenRequest): Asked[] {
  const [, api = '', version = '', ...path] = request.path.split('/').map(decodeURIComponent);
  const on = (object: string | undefined, ...permissions: string[]) =>
    permissions.map((permission) => ({ permission, object }));
  if (api === 'upload') return on(nameInBody(request), CREATE);
  if (api === 'download') return on(path[4], GET);
  if (isXml(request)) return askedOfXml(request, [version, ...path].join('/'));
  return askedOfJson(request, path);
}

function askedOfJson({ method, body }: SeenRequest, path: readonly string[]): Asked[] {
  const [, , kind, object, verb, ...rest] = path;
  if (kind === undefined) return [{ permission: 'storage.buckets.get', object: undefined }];
  // Every caller may ask for its own permissions.
  if (kind === 'iam') return [];
  if (object === undefined) return [{ permission: 'storage.objects.list', object: undefined }];
  if (verb === 'compose') {
    const { sourceObjects } = JSON.parse(body.toString()) as { sourceObjects: { name: string }[] };
    const sources = sourceObjects.map(({ name }) => ({ permission: GET, object: name }));
    return [{ permission: CREATE, object }, ...sources];
  }
  if (verb === 'rewriteTo')
    return [
      { permission: GET, object },
      { permission: CREATE, object: rest[3] },
    ];
  return [{ permission: method === 'DELETE' ? 'storage.objects.delete' : GET, object }];
}

function askedOfXml({ method, query }: SeenRequest, name: string): Asked[] {
  const upload = (verb: string) => `storage.multipartUploads.${verb}`;
  if (method === 'GET' && query.has('uploads')) return [{ permission: upload('list'), object: undefined }];
  if (method === 'GET') return [{ permission: upload('listParts'), object: name }];
  if (method === 'DELETE') return [{ permission: upload('abort'), object: name }];
  return [
    { permission: upload('create'), object: name },
    { permission: CREATE, object: name },
  ];
}

function nameInBody({ body, query }: SeenRequest): string {
  const given = query.get('name');
  if (given !== null) return given;
  return JSON.parse(/\r\n\r\n(\{.*?\})\r\n/s.exec(body.toString('latin1'))?.[1] ?? '{}').name as string;
}
