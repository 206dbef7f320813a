import { describe, expect, it } from 'vitest';
import { blockListXml, parseBlockList, parseListing } from './answers.ts';

const DECLARATION = '\ufeff<?xml version="1.0" encoding="utf-8"?>';

describe('parseListing', () => {
  it('reads names as they are, encoded ones too, and what Azure says of each', () => {
    const blob = (name: string, more = '') =>
      `<Blob>${name}<Properties><Last-Modified>Sat, 21 Nov 2026 10:00:00 GMT</Last-Modified><Etag>0x8D</Etag><Content-Length>12</Content-Length>${more}</Properties><Metadata><crc32c>AAAAAA==</crc32c></Metadata></Blob>`;
    const blobs = [
      blob('<Name>a&amp;lt;&lt;&#39;&quot;</Name>'),
      blob('<Name Encoded="true">a%EF%BF%BE%20b</Name>'),
      blob('<Name>dir</Name>', '<ResourceType>directory</ResourceType>'),
    ];
    const prefixes =
      '<BlobPrefix><Name>p&amp;/</Name></BlobPrefix><BlobPrefix><Name Encoded="true">q%EF%BF%BE/</Name></BlobPrefix>';
    const xml = `${DECLARATION}<EnumerationResults ServiceEndpoint="https://acct/" ContainerName="runs"><Prefix>NextMarker</Prefix><Blobs>${blobs.join('')}${prefixes}</Blobs><NextMarker>2!88!a+b/c==</NextMarker></EnumerationResults>`;
    const facts = { sizeBytes: 12, etag: '0x8D', lastModified: 'Sat, 21 Nov 2026 10:00:00 GMT' };
    expect(parseListing(xml)).toEqual({
      blobs: [
        { name: `a&lt;<'"`, ...facts, isDirectory: false },
        { name: 'a\ufffe b', ...facts, isDirectory: false },
        { name: 'dir', ...facts, isDirectory: true },
      ],
      prefixes: ['p&/', 'q\ufffe/'],
      nextMarker: '2!88!a+b/c==',
    });
  });

  it('knows directories by their metadata, too', () => {
    const xml = `${DECLARATION}<EnumerationResults><Blobs><Blob><Name>d</Name><Metadata><hdi_isfolder>true</hdi_isfolder></Metadata></Blob></Blobs><NextMarker /></EnumerationResults>`;
    expect(parseListing(xml)?.blobs[0]?.isDirectory).toBe(true);
  });

  it.each(['<Blobs /><NextMarker />', '<Blobs></Blobs><NextMarker></NextMarker>', '<Blobs/><NextMarker/>'])(
    '%s is an empty last page',
    (content) => {
      const xml = `${DECLARATION}<EnumerationResults>${content}</EnumerationResults>`;
      expect(parseListing(xml)).toEqual({ blobs: [], prefixes: [], nextMarker: undefined });
    },
  );

  it('beginnings without an end are found at once', () => {
    const xml = `${DECLARATION}<EnumerationResults><Blobs>${'<Blob>'.repeat(1_000_000)}</Blobs></EnumerationResults>`;
    expect(() => parseListing(xml)).toThrow('its elements are nested too deeply');
    const blocks = `<BlockList><UncommittedBlocks>${'<Block>'.repeat(1_000_000)}`;
    expect(() => parseBlockList(blocks)).toThrow('it has no </BlockList>');
    expect(() => parseBlockList(`${blocks}</UncommittedBlocks></BlockList>`)).toThrow('nested too deeply');
  });

  const BLOB = '<Blob><Name>a</Name></Blob>';
  const page = (content: string, marker = '<NextMarker />') =>
    parseListing(`<EnumerationResults><Blobs>${content}</Blobs>${marker}</EnumerationResults>`);

  it('more blobs than Azure puts into a page are no listing', () => {
    expect(page(BLOB.repeat(5000))?.blobs.length).toBe(5000);
    expect(page(BLOB.repeat(5001))).toBeNull();
  });

  it.each([
    ['a name that no store writes', '<Blob><Name Encoded="true">%E0%A4%A</Name></Blob>'],
    ['a blob without a name', '<Blob><Namf>a</Name></Blob>'],
    ['a changed beginning of a blob', `${BLOB}<Blab><Name>b</Name></Blob>`],
    ['a changed end of a blob', `<Blob><Name>b</Name></Blab>${BLOB}`],
    ['no word on the next page', BLOB, '<NextMarkex>2!88</NextMarkex>'],
  ])('a page with %s is broken: a blob may be missing', (_, content, marker?: string) => {
    expect(() => page(content, marker)).toThrow('the answer was cut off or changed in transit');
  });

  it('a page without the end of its blobs, or without blobs, is broken', () => {
    const xml = '<EnumerationResults><Blobs><Blob><Name>a</Name></Blob></EnumerationResults>';
    expect(() => parseListing(xml)).toThrow('its </EnumerationResults> ends another element');
    expect(() => parseListing('<EnumerationResults><NextMarker/></EnumerationResults>')).toThrow(
      'it has no </Blobs>',
    );
  });

  it('a page of another kind is no listing', () => {
    expect(parseListing('<html>EnumerationResults</html>')).toBeNull();
    expect(parseListing('')).toBeNull();
  });
});

describe('lists of blocks', () => {
  it('are read, with their names decoded; committed blocks are left out', () => {
    const id = Buffer.from('block-1').toString('base64');
    const xml = `${DECLARATION}<BlockList><CommittedBlocks><Block><Name>AAAA</Name><Size>1</Size></Block></CommittedBlocks><UncommittedBlocks><Block><Name>${id}</Name><Size>42</Size></Block></UncommittedBlocks></BlockList>`;
    expect(parseBlockList(xml)).toEqual([{ name: 'block-1', sizeBytes: 42 }]);
  });

  it.each(['<BlockList />', '<BlockList><UncommittedBlocks /></BlockList>'])('%s is empty', (xml) => {
    expect(parseBlockList(DECLARATION + xml)).toEqual([]);
  });

  it('a page of another kind is not a listing', () => {
    expect(parseBlockList('<html></html>')).toBeNull();
  });

  it('are written in order', () => {
    expect(new TextDecoder().decode(blockListXml(['QQ==', 'Qg==']))).toBe(
      '<?xml version="1.0" encoding="utf-8"?><BlockList><Uncommitted>QQ==</Uncommitted><Uncommitted>Qg==</Uncommitted></BlockList>',
    );
  });
});
