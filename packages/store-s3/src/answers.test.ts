import { Readable } from 'node:stream';
import {
  CompleteMultipartUploadCommand,
  DeleteObjectsCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  ListPartsCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { plainEtag } from '@holdfast/cloud-http';
import { describe, expect, it } from 'vitest';
import {
  base64Crc32,
  completionXml,
  countOf,
  deleteXml,
  documentOf,
  flagOf,
  parseDeleteErrors,
  parseListing,
  parsePartList,
  parseUploadList,
} from './answers.ts';

interface Sent {
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/** The AWS SDK, whose every request gets this answer. */
function sdkThatGets(xml: string) {
  const sent: Sent[] = [];
  const handle = (request: Sent) => {
    sent.push(request);
    const body = Readable.from([Buffer.from(xml)]);
    return Promise.resolve({ response: { statusCode: 200, headers: {}, body } });
  };
  const sdk = new S3Client({
    region: 'us-east-1',
    credentials: { accessKeyId: 'id', secretAccessKey: 'secret' },
    maxAttempts: 1,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { handle } as never,
  });
  return { sdk, sent };
}

const DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n';
const XMLNS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"';
const BROKEN = expect.objectContaining({ code: 'BAD_BODY' });
const page = (content: string) =>
  `${DECLARATION}<ListBucketResult ${XMLNS}><Name>runs</Name>${content}</ListBucketResult>`;
const TIME = '<LastModified>2026-11-21T10:00:00.123Z</LastModified>';
const REST = `${TIME}<ETag>&quot;e&quot;</ETag><ChecksumAlgorithm>CRC32C</ChecksumAlgorithm><Size>9007199254740</Size><StorageClass>STANDARD</StorageClass>`;
const item = (key: string, rest = REST) => `<Contents><Key>${key}</Key>${rest}</Contents>`;
const LAST = '<IsTruncated>false</IsTruncated>';

describe('what an answer says is what the AWS SDK reads', () => {
  it.each([
    ['an empty page', page(`<Prefix></Prefix><KeyCount>0</KeyCount>${LAST}`)],
    ['one object', page(`<KeyCount>1</KeyCount>${LAST}${item('gpt/a')}`)],
    [
      'more to come',
      page(
        `<IsTruncated>true</IsTruncated><NextContinuationToken>1/a+b==&amp;</NextContinuationToken>${item('a')}`,
      ),
    ],
    ['entities', page(`${LAST}${item('a&amp;&lt;&gt;&quot;&apos;&#39;&#x27;&#xD;&#10;b')}`)],
    ['entities in entities', page(`${LAST}${item('&amp;lt;&#38;gt;&amp;#39;')}`)],
    ['other letters and blanks', page(`${LAST}${item('ü 日本 \u{1f511}')}${item(' a  b ')}`)],
    ['lines and blanks between elements', page(`\n  ${LAST}\n  ${item('a').replaceAll('><', '>\n    <')}\n`)],
    [
      'an owner, and a prefix in common',
      page(
        `${LAST}${item('a', `${REST}<Owner><ID>1</ID><DisplayName>d</DisplayName></Owner>`)}<CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes>`,
      ),
    ],
    ['an object without an ETag', page(`${LAST}${item('a', `${TIME}<Size>1</Size>`)}`)],
    ['times in seconds', page(`${LAST}${item('a', `${TIME}<Size>1</Size>`.replace('.123Z', 'Z'))}`)],
    ['an ETag without quotes', page(`${LAST}${item('a', `${TIME}<ETag>e-2</ETag><Size>0</Size>`)}`)],
  ])('a listing with %s', async (_name, xml) => {
    const {
      Contents = [],
      CommonPrefixes = [],
      ...theirs
    } = await sdkThatGets(xml).sdk.send(new ListObjectsV2Command({ Bucket: 'runs' }));
    expect(parseListing(xml)).toEqual({
      objects: Contents.map(({ Key = '', Size = 0, ETag, LastModified }) => ({
        key: Key,
        sizeBytes: Size,
        etag: plainEtag(ETag),
        createdAtMs: LastModified?.getTime() ?? 0,
      })),
      prefixes: CommonPrefixes.map(({ Prefix }) => Prefix),
      isTruncated: theirs.IsTruncated,
      nextToken: theirs.NextContinuationToken,
    });
  });

  it.each([
    ['no part', '<ListPartsResult><IsTruncated>false</IsTruncated></ListPartsResult>'],
    [
      'parts of all kinds',
      `${DECLARATION}<ListPartsResult ${XMLNS}><UploadId>u</UploadId><PartNumberMarker>0</PartNumberMarker><NextPartNumberMarker>2</NextPartNumberMarker><IsTruncated>true</IsTruncated><Part><PartNumber>1</PartNumber><ETag>"a"</ETag><Size>5</Size><ChecksumCRC32C>AAAAAA==</ChecksumCRC32C></Part><Part><PartNumber>2</PartNumber><ETag>&quot;b&quot;</ETag><Size>0</Size></Part></ListPartsResult>`,
    ],
  ])('a list of parts with %s', async (_name, xml) => {
    const command = new ListPartsCommand({ Bucket: 'runs', Key: 'k', UploadId: 'u' });
    const { Parts = [], ...theirs } = await sdkThatGets(xml).sdk.send(command);
    expect(parsePartList(xml)).toEqual({
      parts: Parts.map(({ PartNumber, Size, ETag, ChecksumCRC32C }) => ({
        number: PartNumber,
        sizeBytes: Size,
        etag: plainEtag(ETag),
        crc32c: ChecksumCRC32C,
      })),
      isTruncated: theirs.IsTruncated,
      nextMarker: theirs.NextPartNumberMarker,
    });
  });

  it.each([
    [
      'no upload',
      '<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>',
    ],
    [
      'uploads and a next page',
      `${DECLARATION}<ListMultipartUploadsResult ${XMLNS}><UploadIdMarker/><NextKeyMarker>a&amp;b</NextKeyMarker><NextUploadIdMarker>u2</NextUploadIdMarker><IsTruncated>true</IsTruncated><Upload><Key>a&amp;b</Key><UploadId>u1</UploadId><Initiated>2026-11-21T10:00:00.000Z</Initiated></Upload><Upload><Key>c</Key><UploadId>u2</UploadId><Initiated>2026-11-21T10:00:00Z</Initiated></Upload></ListMultipartUploadsResult>`,
    ],
  ])('a list of uploads with %s', async (_name, xml) => {
    const { sdk } = sdkThatGets(xml);
    const { Uploads = [], ...theirs } = await sdk.send(new ListMultipartUploadsCommand({ Bucket: 'runs' }));
    expect(parseUploadList(xml)).toEqual({
      uploads: Uploads.map(({ Key, UploadId, Initiated }) => ({
        key: Key,
        uploadId: UploadId,
        beganAtMs: Initiated?.getTime() ?? 0,
      })),
      isTruncated: theirs.IsTruncated,
      nextKeyMarker: theirs.NextKeyMarker ?? '',
      nextUploadIdMarker: theirs.NextUploadIdMarker ?? '',
    });
  });

  it('the refused items of a batch', async () => {
    const xml = `<DeleteResult ${XMLNS}><Deleted><Key>a</Key></Deleted><Error><Key>b&lt;</Key><Code>AccessDenied</Code><Message>no &amp; never</Message></Error><Error><Key>c</Key></Error></DeleteResult>`;
    const { Errors = [] } = await sdkThatGets(xml).sdk.send(
      new DeleteObjectsCommand({ Bucket: 'runs', Delete: { Objects: [{ Key: 'a' }] } }),
    );
    expect(parseDeleteErrors(xml)).toEqual(
      Errors.map(({ Key = '', Code = '', Message = '' }) => ({ key: Key, code: Code, message: Message })),
    );
  });
});

describe('an answer that is not as it was sent is broken', () => {
  it.each([
    ['no size', page(`${LAST}${item('a', TIME)}`)],
    ['a size that is no number', page(`${LAST}${item('a', `${TIME}<Size>1o</Size>`)}`)],
    ['a negative size', page(`${LAST}${item('a', `${TIME}<Size>-1</Size>`)}`)],
    ['no time', page(`${LAST}${item('a', '<Size>1</Size>')}`)],
    [
      'a word in place of a time',
      page(`${LAST}${item('a', '<Size>1</Size><LastModified>yesterday</LastModified>')}`),
    ],
    ['a word in place of a flag', page('<IsTruncated>perhaps</IsTruncated>')],
    ['fewer objects than it claims', page(`<KeyCount>2</KeyCount>${LAST}${item('a')}`)],
    ['no word on whether it is the last page', page(item('a'))],
  ])('%s', (_name, xml) => {
    expect(() => parseListing(xml)).toThrow(BROKEN);
  });

  it('an upload without its time: it would be old enough to be stopped', () => {
    const upload = '<Upload><Key>a</Key><UploadId>u1</UploadId></Upload>';
    const list = `<ListMultipartUploadsResult>${LAST}${upload}</ListMultipartUploadsResult>`;
    expect(() => parseUploadList(list)).toThrow(BROKEN);
  });

  it('a document of another kind is of another server, unless the store says that it is its own', () => {
    const answer = { status: 200, headers: {}, body: Buffer.from('<html></html>'), bytesInto: undefined };
    expect(() => documentOf(answer)).toThrow(expect.objectContaining({ isForeign: true }));
    const headers = { 'x-amz-request-id': 'REQ1' };
    expect(() => documentOf({ ...answer, headers })).toThrow(BROKEN);
    expect(() => documentOf({ ...answer, body: Buffer.from('<CopyResult><a></CopyResult>') })).toThrow(
      BROKEN,
    );
  });

  it('an element that is absent has no value; capitals do not matter in a flag', () => {
    expect([countOf('<a/>', 'Days'), flagOf('<a/>', 'IsPublic')]).toEqual([undefined, undefined]);
    expect([flagOf('<IsPublic>TRUE</IsPublic>', 'IsPublic'), countOf('<Days>7</Days>', 'Days')]).toEqual([
      true,
      7,
    ]);
  });
});

describe('what is sent is what the AWS SDK sends', () => {
  const KEYS = ['a', 'a&b<c>"d\'e', 'ü 日本', ' '];

  it('a batch of deletes, with its checksum', async () => {
    const { sdk, sent } = sdkThatGets('<DeleteResult></DeleteResult>');
    const Objects = KEYS.map((Key) => ({ Key }));
    await sdk.send(new DeleteObjectsCommand({ Bucket: 'runs', Delete: { Quiet: true, Objects } }));
    const [{ headers, body } = { headers: {} }] = sent;
    expect(Buffer.from(deleteXml(KEYS)).toString()).toBe(String(body));
    expect(base64Crc32(deleteXml(KEYS))).toBe(headers['x-amz-checksum-crc32']);
  });

  it('the parts of a completion', async () => {
    const { sdk, sent } = sdkThatGets('<CompleteMultipartUploadResult></CompleteMultipartUploadResult>');
    const parts = [
      { number: 1, etag: 'e"1', crc32c: 'AAAAAA==' },
      { number: 2, etag: 'e2', crc32c: undefined },
    ];
    const Parts = parts.map(({ number: PartNumber, etag: ETag, crc32c }) => ({
      PartNumber,
      ETag,
      ...(crc32c !== undefined && { ChecksumCRC32C: crc32c }),
    }));
    const names = { Bucket: 'runs', Key: 'k', UploadId: 'u' };
    await sdk.send(new CompleteMultipartUploadCommand({ ...names, MultipartUpload: { Parts } }));
    expect(Buffer.from(completionXml(parts)).toString()).toBe(String(sent[0]?.body));
  });

  it('control characters reach the store as entities', () => {
    expect(Buffer.from(deleteXml(['a\r\n\tb'])).toString()).toContain('<Key>a&#13;&#10;&#9;b</Key>');
  });
});
