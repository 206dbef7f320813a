/** What the adapters of cloud stores share. */

export { type Trust, trustedCertificates } from './certificates.ts';
export {
  CloudStore,
  type ObjectRequests,
  type ReadAnswer,
  type ReadRequest,
} from './cloud-store.ts';
export { type CopyLimits, type CopyPlan, type CopyRange, planCopy } from './copy-plan.ts';
export { assertCrcOfParts, crcOfParts } from './crc-of-parts.ts';
export { CredentialsError, credentialsFailure } from './credentials-error.ts';
export { brokenAnswer, isXmlOf, jsonValue } from './documents.ts';
export {
  codeOfStatus,
  contextOf,
  foreignError,
  HttpRefusal,
  isAbort,
  type Judgement,
  MAKES_NEW,
  nameOf,
  objectError,
  plainText,
  type RefusalDetails,
  type RefusedAnswer,
  refusalError,
  requestError,
  rootOf,
  type StoreSubject,
} from './errors.ts';
export { daysText, fact, requestRateFact } from './facts.ts';
export { LibraryFailure } from './library-failure.ts';
export { type BucketPage, nextPosition, type PageRequest } from './listing.ts';
export { type ObjectPlace, pathInBucket, replaced } from './object-answers.ts';
export { OrderedCloudStore } from './ordered-store.ts';
export {
  type Completion,
  type PartsPage,
  PartUpload,
  type UploadHome,
  type UploadToken,
} from './part-upload.ts';
export { LOGIN_ADVICE, Proxies, ProxyRefusal } from './proxy.ts';
export { Remedies, type Remedy, StoreClock } from './remedies.ts';
export { type Expiring, Renewed } from './renewed.ts';
export { conceal, Secret, secretsOfQuery } from './secret.ts';
export { type FromEnvironment, firstOf, holdsSignature, StoreUri, type StoreUriForm } from './store-uri.ts';
export {
  HttpTransport,
  type SendOptions,
  type TransportAnswer,
  type TransportOptions,
  type TransportRequest,
} from './transport.ts';
export {
  decodeToken,
  encodeToken,
  isTokenPartSize,
  PART_SIZE_UNKNOWN,
} from './upload-parts.ts';
export {
  bareHostname,
  base64Crc,
  crcOfBase64,
  customerKeyHeaders,
  dateMs,
  elementsOf,
  isInTheClear,
  isLoopback,
  md5OfEtag,
  plainEtag,
  serverOf,
  textOf,
  unescapedXml,
} from './values.ts';
