/**
 * Lists the libraries of others that the PostgreSQL packages contain beside PostgreSQL. The
 * packages state neither versions nor licences, so the versions were read from the libraries.
 */
export interface NativeLibrary {
  name: string;
  version: string;
  /** An SPDX id, or a name for what has none. */
  license: string | { name: string };
  /** Vendor and product of the Common Platform Enumeration; null if it lists no such product. */
  cpe: string | null;
  /** The files in `native/lib`, and the text in the first of them that states the version. */
  files: string[];
  mark: string;
}

export const libraries: NativeLibrary[] = [
  {
    name: 'icu',
    version: '60.2',
    license: 'Unicode-DFS-2016',
    cpe: 'icu-project:international_components_for_unicode',
    files: ['libicuuc.so.60.2', 'libicui18n.so.60.2', 'libicudata.so.60.2'],
    mark: '60.2',
  },
  {
    name: 'libxml2',
    version: '2.9.4',
    license: 'MIT',
    cpe: 'xmlsoft:libxml2',
    files: ['libxml2.so.2'],
    mark: '20904',
  },
  {
    name: 'libxslt',
    version: '1.1.29',
    license: 'MIT',
    cpe: 'xmlsoft:libxslt',
    files: ['libxslt.so.1'],
    mark: '10129',
  },
  {
    name: 'openssl',
    version: '1.1.1',
    license: 'OpenSSL',
    cpe: 'openssl:openssl',
    files: ['libcrypto.so.1.1', 'libssl.so.1.1'],
    mark: 'OpenSSL 1.1.1 ',
  },
  {
    name: 'ossp-uuid',
    version: '1.6.2',
    license: { name: 'OSSP uuid licence (permissive)' },
    cpe: null,
    files: ['libossp-uuid.so.16'],
    mark: 'OSSP uuid 1.6.2',
  },
  {
    name: 'xz',
    version: '5.2.2',
    license: { name: 'public domain (liblzma)' },
    cpe: 'tukaani:xz',
    files: ['liblzma.so.5'],
    mark: '5.2.2',
  },
  {
    name: 'zlib',
    version: '1.2.11',
    license: 'Zlib',
    cpe: 'zlib:zlib',
    files: ['libz.so.1'],
    mark: 'inflate 1.2.11',
  },
];

export const librariesNotice = [
  'This package contains PostgreSQL (SPDX: PostgreSQL) and the libraries below. Their licence texts are',
  'not in the package. Read them in the source of each library.',
  '',
  ...libraries.map(({ name, version, license, files }) => {
    const stated = typeof license === 'string' ? `SPDX: ${license}` : license.name;
    return `${name} ${version}: ${stated} (${files.join(', ')})`;
  }),
].join('\n');
