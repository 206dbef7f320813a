/**
 * Address of a bucket: https://docs.aws.amazon.com/general/latest/gr/s3.html. Tests compare it with
 * the rules of the AWS SDK for every region that the SDK knows.
 */

import { serverOf } from '@holdfast/cloud-http';
import { CheckpointError } from '@holdfast/core/contract';

export interface EndpointOptions {
  readonly bucket: string;
  readonly region: string;
  /** Base URL of a server that is not AWS. */
  readonly endpoint?: string | undefined;
  readonly pathStyle: boolean;
  readonly fips: boolean;
  readonly dualStack: boolean;
}

export interface Endpoint extends Omit<ReturnType<typeof serverOf>, 'basePath'> {
  /** For the header `host`. */
  readonly host: string;
  /** Path of the bucket, without a '/' at its end. */
  readonly path: string;
  /** The region that requests are signed for. */
  readonly signingRegion: string;
}

const CHINA = 'amazonaws.com.cn';

/** Domains of the partitions other than that of most regions. */
const DOMAINS: readonly (readonly [regions: RegExp, domain: string])[] = [
  [/^cn-\w+-\d+$|^aws-cn-global$/, CHINA],
  [/^eusc-de-\w+-\d+$/, 'amazonaws.eu'],
  [/^us-iso-\w+-\d+$|^aws-iso-global$/, 'c2s.ic.gov'],
  [/^us-isob-\w+-\d+$|^aws-iso-b-global$/, 'sc2s.sgov.gov'],
  [/^eu-isoe-\w+-\d+$|^aws-iso-e-global$/, 'cloud.adc-e.uk'],
  [/^us-isof-\w+-\d+$|^aws-iso-f-global$/, 'csp.hci.ic.gov'],
];
const USUAL_DOMAIN = 'amazonaws.com';
/** The endpoint without a region, and the region that it is in. */
const GLOBAL = 'aws-global';
const REGION_OF_GLOBAL = 'us-east-1';

/** `source`: the variable or setting, for the message of `InvalidConfig`. */
export function endpointFlag(source: string, value: string | undefined): boolean | undefined {
  if (!value) return undefined;
  if (value === 'true' || value === 'false') return value === 'true';
  throw new CheckpointError(
    'InvalidConfig',
    `${source} has a value that is not accepted; it is true or false`,
  );
}

/** Pure. `InvalidConfig`: AWS has no such address. */
export function endpointOf(options: EndpointOptions): Endpoint {
  const { bucket, region, endpoint, pathStyle } = options;
  if (endpoint !== undefined) assertPlain(options);
  const base = new URL(endpoint ?? `https://${hostOf(options)}`);
  const isInHost = !pathStyle && !isIpv4(base.hostname) && isHostable(bucket, base.protocol === 'http:');
  const host = isInHost ? `${bucket}.${base.host}` : base.host;
  const { basePath, ...server } = serverOf(base);
  return {
    ...server,
    hostname: isInHost ? `${bucket}.${server.hostname}` : server.hostname,
    host,
    path: isInHost ? basePath : `${basePath}/${bucket}`,
    signingRegion: region === GLOBAL ? REGION_OF_GLOBAL : region,
  };
}

function hostOf({ region, fips, dualStack }: EndpointOptions): string {
  // The region may come from an answer or a file: it must not lead to another domain.
  if (!/^(?!-)[a-z0-9-]{1,63}(?<!-)$/i.test(region))
    throw new CheckpointError('InvalidConfig', 'the region is not a name such as eu-west-1; set region=');
  const domain = DOMAINS.find(([regions]) => regions.test(region))?.[1] ?? USUAL_DOMAIN;
  if (fips && domain === CHINA)
    throw new CheckpointError('InvalidConfig', `AWS has no FIPS endpoint of S3 in the region ${region}`);
  const service = `s3${fips ? '-fips' : ''}${dualStack ? '.dualstack' : ''}`;
  if (region !== GLOBAL) return `${service}.${region}.${domain}`;
  return fips || dualStack ? `${service}.${REGION_OF_GLOBAL}.${domain}` : `${service}.${domain}`;
}

function assertPlain({ fips, dualStack }: EndpointOptions): void {
  const setting = fips ? 'FIPS' : dualStack ? 'DUALSTACK' : undefined;
  if (setting === undefined) return;
  const what = `AWS_USE_${setting}_ENDPOINT, or the same setting of the profile, chooses an endpoint of AWS, but another one is set; remove one of the two`;
  throw new CheckpointError('InvalidConfig', what);
}

/**
 * Tells whether the bucket can be part of the host name. The certificates of TLS do not match a
 * name with dots.
 */
function isHostable(bucket: string, mayHaveDots: boolean): boolean {
  const labels = mayHaveDots ? bucket.split('.') : [bucket];
  return labels.every((label) => /^(?!-)[a-z0-9-]{3,63}(?<!-)$/.test(label));
}

function isIpv4(hostname: string): boolean {
  return /^\d+(\.\d+){3}$/.test(hostname);
}
