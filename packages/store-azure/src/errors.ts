import {
  CredentialsError,
  codeOfStatus,
  credentialsFailure,
  foreignError,
  HttpRefusal,
  MAKES_NEW,
  objectError,
  plainText,
  type RefusedAnswer,
  refusalError,
  requestError,
  type StoreSubject,
  textOf,
} from '@holdfast/cloud-http';
import { CheckpointError, type ErrorCode } from '@holdfast/core/contract';
import type { AzureConfig } from './config.ts';

/** Subject of a call and settings of the store, for its message. */
export interface AzureSubject extends StoreSubject {
  readonly config: AzureConfig;
}

export class AzureRefusal extends HttpRefusal {
  /** Header that the store rejects, in lower case; empty if the refusal is not about one. */
  readonly headerName: string;

  constructor(answer: RefusedAnswer, code: string, message: string, headerName = '') {
    super(answer, { code, message, requestId: answer.headers['x-ms-request-id'] });
    this.name = 'AzureRefusal';
    this.headerName = headerName.toLowerCase();
  }
}

/**
 * Parses the code in header or body. Keeps only the first line of the message, and no details: they
 * repeat signatures and the signed text.
 */
export function refusalOf(answer: RefusedAnswer, body: string): AzureRefusal {
  const element = (name: string) => textOf(body, name) ?? '';
  const isError = body.includes('<Error>');
  const told = answer.headers['x-ms-error-code'] ?? (isError ? element('Code') : '');
  const message = isError ? (element('Message').split('\n', 1)[0] ?? '') : plainText(body);
  // Azurite's code for unknown credentials.
  const isUnknown = told === 'AuthorizationFailure' && message.startsWith('Server failed to authenticate');
  const code = isUnknown ? 'AuthenticationFailed' : told;
  return new AzureRefusal(answer, code, message.trim(), isError ? element('HeaderName') : '');
}

/** Tells by the headers whether Azure itself answered. */
export function isOfAzure(headers: RefusedAnswer['headers']): boolean {
  return headers['x-ms-request-id'] !== undefined;
}

/** A success in a form that Azure never uses: another server answered. */
export function foreignSuccess({ status, headers }: Pick<RefusedAnswer, 'status' | 'headers'>): AzureRefusal {
  const { 'x-ms-request-id': _, ...rest } = headers;
  return new AzureRefusal({ status, headers: rest, hasBody: true }, '', '');
}

/** Codes of Azure and Azurite. For any other code the HTTP status decides. */
const BY_CODE: Readonly<Record<string, ErrorCode>> = {
  BlobNotFound: 'NotFound',
  ResourceNotFound: 'NotFound',
  ContainerNotFound: 'NotFound',
  ContainerBeingDeleted: 'NotFound',
  FilesystemNotFound: 'NotFound',
  FilesystemBeingDeleted: 'NotFound',
  PathNotFound: 'NotFound',

  BlobAlreadyExists: 'AlreadyExists',
  ConditionNotMet: 'AlreadyExists',
  PathAlreadyExists: 'AlreadyExists',
  TargetConditionNotMet: 'AlreadyExists',

  AccountIsDisabled: 'Denied',
  AuthenticationFailed: 'Denied',
  AuthorizationFailure: 'Denied',
  AuthorizationPermissionMismatch: 'Denied',
  AuthorizationProtocolMismatch: 'Denied',
  AuthorizationResourceTypeMismatch: 'Denied',
  AuthorizationServiceMismatch: 'Denied',
  AuthorizationSourceIPMismatch: 'Denied',
  BlobImmutableDueToPolicy: 'Denied',
  InsufficientAccountPermissions: 'Denied',
  InvalidAuthenticationInfo: 'Denied',
  InvalidTokenAudience: 'Denied',
  KeyBasedAuthenticationNotPermitted: 'Denied',
  LeaseAlreadyPresent: 'Denied',
  LeaseIdMissing: 'Denied',
  NoAuthenticationInformation: 'Denied',
  PublicAccessNotPermitted: 'Denied',
  SnapshotsPresent: 'Denied',
  UnauthorizedBlobOverwrite: 'Denied',

  BlobCustomerSpecifiedEncryptionMismatch: 'InvalidConfig',
  BlobDoesNotUseCustomerSpecifiedEncryption: 'InvalidConfig',
  BlobUsesCustomerSpecifiedEncryption: 'InvalidConfig',
  EncryptionScopeNotFound: 'InvalidConfig',
  EncryptionScopeDisabled: 'InvalidConfig',
  EncryptionScopeForbidden: 'InvalidConfig',
  InvalidResourceName: 'InvalidConfig',
  InvalidUri: 'InvalidConfig',
  AccessTierNotSupportedForAccountType: 'InvalidConfig',
  AccountRequiresHttps: 'InvalidConfig',

  BlockCountExceedsLimit: 'InvalidArgument',
  InvalidBlobOrBlock: 'InvalidArgument',
  InvalidBlockId: 'InvalidArgument',
  OutOfRangeInput: 'InvalidArgument',
  RequestBodyTooLarge: 'InvalidArgument',

  Crc64Mismatch: 'Corrupt',
  Md5Mismatch: 'Corrupt',

  BlobArchived: 'Unsupported',
  BlobBeingRehydrated: 'Unsupported',
  FeatureVersionMismatch: 'Unsupported',
  InvalidBlobType: 'Unsupported',
  APINotImplemented: 'Unsupported',

  ServerBusy: 'Throttled',
  TooManyRequests: 'Throttled',
  EgressIsOverAccountLimit: 'Throttled',
  IngressIsOverAccountLimit: 'Throttled',
  OperationsPerSecondIsOverAccountLimit: 'Throttled',

  // An internal error, or concurrent writes: it is unknown whether our write took effect.
  AccountBeingCreated: 'Unavailable',
  InternalError: 'Unavailable',
  OperationTimedOut: 'Unavailable',
  PendingCopyOperation: 'Unavailable',

  AccountQuotaExceeded: 'StorageFull',
};

/** Explanations in addition to the store's own message. */
const HINTS: Readonly<Record<string, string>> = {
  AccountIsDisabled: 'the account is disabled',
  AuthorizationProtocolMismatch: 'the SAS allows only https; write https:// in endpoint=',
  AuthorizationResourceTypeMismatch:
    'the SAS does not cover containers and objects; create one with srt=co, or one of the container',
  AuthorizationServiceMismatch: 'the SAS does not cover blobs; create one with ss=b, or one of the container',
  AuthorizationSourceIPMismatch: 'the SAS does not allow the IP address of this machine',
  BlobArchived: 'it was moved to the archive tier; rehydrate it, and remove the rule that moved it',
  BlobBeingRehydrated: 'it is being rehydrated from the archive tier, which takes hours',
  BlobImmutableDueToPolicy: 'an immutability policy or a legal hold keeps it',
  InvalidTokenAudience: 'the token is for another service or cloud',
  KeyBasedAuthenticationNotPermitted:
    'the account accepts no keys, and no SAS signed by one; write auth=identity',
  LeaseAlreadyPresent: 'it is protected by a blob lease',
  LeaseIdMissing: 'it is protected by a blob lease',
  NoAuthenticationInformation: 'the request came without credentials',
  PublicAccessNotPermitted: 'the account accepts no requests without credentials',
  SnapshotsPresent: 'it has snapshots',
  BlobUsesCustomerSpecifiedEncryption:
    'it was written with a HOLDFAST_AZURE_CUSTOMER_KEY, and none is set now',
  BlobCustomerSpecifiedEncryptionMismatch:
    'it was written with another HOLDFAST_AZURE_CUSTOMER_KEY than is set now',
  BlobDoesNotUseCustomerSpecifiedEncryption:
    'it was written without HOLDFAST_AZURE_CUSTOMER_KEY, and one is set now',
  EncryptionScopeNotFound: 'the account has no such encryptionScope',
  EncryptionScopeDisabled: 'the encryptionScope is disabled',
  EncryptionScopeForbidden: 'the container requires its own encryption scope; remove encryptionScope=',
  AccountRequiresHttps: 'the account accepts only https; write https:// in endpoint=',
};

/**
 * Permission that an action needs: as a letter of a SAS, and as an action of a role (below
 * `Microsoft.Storage/…/containers/`).
 */
const PERMISSIONS: readonly (readonly [RegExp, string, string])[] = [
  [/^list$/, 'l (list)', 'blobs/read'],
  [/^(read|look at|list the parts of|resume)/, 'r (read)', 'blobs/read'],
  [/^delete/, 'd (delete)', 'blobs/delete'],
  [/^(create|copy to)/, 'c (create)', 'blobs/write'],
  [/^inspect/, 'r (read), in a SAS of the account', 'read'],
  [/./, 'w (write)', 'blobs/write'],
];

/**
 * Wraps a failed call in a `CheckpointError`. `action`: "read", "create". The message names the
 * subject after it.
 */
export function storeError(error: unknown, action: string, subject: AzureSubject): CheckpointError {
  if (error instanceof AzureRefusal) return azureError(error, action, subject);
  if (error instanceof CredentialsError) return credentialsFailure(error, action, subject);
  return requestError(error, action, subject, serverHint(subject.config));
}

function serverHint({ account, endpoint }: AzureConfig): string {
  return endpoint === `https://${account}.blob.core.windows.net`
    ? `is there an account "${account}"? If it is in another cloud, or has another host name, set endpoint=`
    : 'check endpoint=';
}

function azureError(refusal: AzureRefusal, action: string, subject: AzureSubject): CheckpointError {
  const { code } = refusal;
  if (/^(Container|Filesystem)(NotFound|BeingDeleted)$/.test(code))
    return missingError(refusal, subject, 'a container', code.endsWith('BeingDeleted'));
  if (refusal.isForeign) return foreignError(refusal, { action, subject }, 'Azure Blob Storage');
  const known = codeOf(refusal, action);
  if (known === 'NotFound' && subject.key === undefined)
    return missingError(refusal, subject, 'an account or container');
  if (known === 'NotFound') return objectError(known, subject, 'does not exist', refusal);
  const hint = HINTS[code] ?? deniedHint(refusal, action, subject);
  return refusalError(refusal, { action, subject, code: known, hint });
}

function missingError(
  refusal: AzureRefusal,
  { store }: AzureSubject,
  what: string,
  isBeingDeleted = false,
): CheckpointError {
  const how = isBeingDeleted ? 'is being deleted' : 'does not exist';
  const context = { store, bucket: 'missing' };
  return new CheckpointError('NotFound', `${store} names ${what} that ${how}`, { context, cause: refusal });
}

/** When a blob is created, these codes prove that a blob with the name exists. */
const OF_CREATE: readonly string[] = ['BlobImmutableDueToPolicy', 'UnauthorizedBlobOverwrite'];

function codeOf({ code, status, message, headerName }: AzureRefusal, action: string): ErrorCode {
  if (MAKES_NEW.includes(action) && OF_CREATE.includes(code)) return 'AlreadyExists';
  // Azurite's form of Md5Mismatch.
  if (code === 'InvalidOperation' && /md5/i.test(message)) return 'Corrupt';
  // The server rejects the older version too.
  if (code === 'InvalidHeaderValue' && headerName === 'x-ms-version') return 'Unsupported';
  return BY_CODE[code] ?? codeOfStatus(status);
}

/** Explains why credentials were rejected, as far as that is known. */
function deniedHint(
  { code, status, date }: AzureRefusal,
  action: string,
  { config }: AzureSubject,
): string | undefined {
  const { kind } = config.credentials;
  if (code === 'AuthenticationFailed' || code === 'InvalidAuthenticationInfo') {
    if (kind === 'sas') return sasHint(config.credentials.token.reveal(), date);
    if (kind === 'key')
      return `the key does not belong to the account "${config.account}", the clock of this machine is wrong, or a proxy changed the request`;
    return 'the token was refused: it is from another tenant, or has expired';
  }
  const isPermission = code === 'AuthorizationPermissionMismatch' || code === 'AuthorizationFailure';
  if (!isPermission && !(status === 403 && code === '')) return undefined;
  const [, letter, roleAction] = PERMISSIONS.find(([actions]) => actions.test(action)) ?? [];
  if (kind === 'sas') return `the SAS lacks ${letter}${FIREWALL[code] ?? ''}`;
  if (kind === 'identity') return `no role of the credentials has ${roleAction}${FIREWALL[code] ?? ''}`;
  return 'the firewall of the account refuses this machine';
}

const FIREWALL: Readonly<Record<string, string>> = {
  AuthorizationFailure: ', or the firewall of the account refuses this machine',
};

/** The times of a SAS are not secret. */
function sasHint(token: string, storeDate: string | undefined): string {
  const query = new URLSearchParams(token);
  const nowMs = Date.parse(storeDate ?? '') || Date.now();
  const [start, end] = [query.get('st'), query.get('se')];
  if (end !== null && Date.parse(end) <= nowMs) return `the SAS has expired: it was valid until ${end}`;
  if (start !== null && Date.parse(start) > nowMs) return `the SAS is not valid before ${start}`;
  return 'the SAS is not for this account and container, or was changed, or its key or policy was revoked';
}
