/**
 * Creates certificates for tests at run time, self-signed or signed by an authority. The repository
 * then holds no keys, and no stored certificate that could expire.
 */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIPv4 } from 'node:net';

const der = (tag: number, ...parts: Buffer[]): Buffer => {
  const body = Buffer.concat(parts);
  const length =
    body.length < 0x80
      ? [body.length]
      : body.length < 0x100
        ? [0x81, body.length]
        : [0x82, body.length >> 8, body.length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), body]);
};
const sequence = (...parts: Buffer[]) => der(0x30, ...parts);
const oid = (...bytes: number[]) => der(0x06, Buffer.from(bytes));
const integer = (value: number) => der(0x02, Buffer.from([value]));
const time = (text: string) => der(0x17, Buffer.from(text));

const ed25519 = sequence(oid(0x2b, 0x65, 0x70));
const commonName = oid(0x55, 0x04, 0x03);
const subjectAltName = oid(0x55, 0x1d, 0x11);

const basicConstraints = oid(0x55, 0x1d, 0x13);
const derTrue = der(0x01, Buffer.from([0xff]));

const distinguishedName = (name: string) => sequence(der(0x31, sequence(commonName, der(0x0c, Buffer.from(name)))));
const alternativeName = (name: string) =>
  isIPv4(name) ? der(0x87, Buffer.from(name.split('.').map(Number))) : der(0x82, Buffer.from(name));
const alternativeNames = (names: string[]) =>
  sequence(subjectAltName, der(0x04, sequence(...names.map(alternativeName))));
const authorityExtension = sequence(basicConstraints, derTrue, der(0x04, sequence(derTrue)));

export interface Certificate {
  key: string;
  cert: string;
}

interface CertificateFields {
  subject: string;
  issuer: string;
  extensions: Buffer[];
  /** Self-signed if there is no signer. */
  signer?: KeyObject;
  endTime?: string;
}

function createCertificate({
  subject,
  issuer,
  extensions,
  signer,
  endTime = '491231235959Z',
}: CertificateFields): Certificate & { privateKeyObject: KeyObject } {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const content = sequence(
    der(0xa0, integer(2)),
    // A positive serial number, unique per authority.
    der(0x02, Buffer.concat([Buffer.from([0x01]), randomBytes(8)])),
    ed25519,
    distinguishedName(issuer),
    sequence(time('200101000000Z'), time(endTime)),
    distinguishedName(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(...extensions)),
  );
  const signature = der(0x03, Buffer.from([0]), sign(null, content, signer ?? privateKey));
  const lines = sequence(content, ed25519, signature)
    .toString('base64')
    .replace(/.{64}(?=.)/g, '$&\n');
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    privateKeyObject: privateKey,
  };
}

export function selfSigned(...names: [string, ...string[]]): Certificate {
  const { key, cert } = createCertificate({
    subject: names[0],
    issuer: names[0],
    extensions: [alternativeNames(names)],
  });
  return { key, cert };
}

export interface Authority {
  /** The certificate that clients trust. */
  cert: string;
  issue(...names: [string, ...string[]]): Certificate;
  /** A certificate that expired years ago. */
  issueExpired(...names: [string, ...string[]]): Certificate;
}

/**
 * Each authority gets a distinct name, even with the same label, so that a client that trusts two
 * cannot confuse them.
 */
export function certificateAuthority(label: string): Authority {
  const name = `${label} ${randomBytes(4).toString('hex')}`;
  const { cert, privateKeyObject } = createCertificate({
    subject: name,
    issuer: name,
    extensions: [authorityExtension],
  });
  const issue = (names: [string, ...string[]], endTime?: string): Certificate => {
    const leaf = createCertificate({
      subject: names[0],
      issuer: name,
      extensions: [alternativeNames(names)],
      signer: privateKeyObject,
      ...(endTime && { endTime }),
    });
    return { key: leaf.key, cert: leaf.cert };
  };
  return {
    cert,
    issue: (...names) => issue(names),
    issueExpired: (...names) => issue(names, '210101000000Z'),
  };
}
