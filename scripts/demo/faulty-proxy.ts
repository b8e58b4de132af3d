/**
 * Starts a TLS proxy in front of a server. You can break one layer at a time while it runs. The
 * demo and the scenario of failing layers use it.
 */
import { generateKeyPairSync, sign } from 'node:crypto';
import { request as httpRequest, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { canonicalJson } from '../../src/contract/canonical-json.ts';
import { errorCatalogue } from '../../src/contract/errors/errors.ts';
import { certificateAuthority } from '../../src/probe/testing/self-signed.ts';

const impostor: RequestListener = (_, response) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ status: 'ok', version: '1.0.0' }));
};

/** Answers like another installation: a valid Slipway that has none of our machines. */
const otherKeys = generateKeyPairSync('ed25519');
const otherInstallation: RequestListener = (request, response) => {
  const nonce = new URL(request.url ?? '/', 'http://other').searchParams.get('nonce');
  const public_key = otherKeys.publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
  const claims = { service: 'slipway', installation_id: 'slipway-other', nonce, kid: 'key_other', public_key };
  const signature = sign(null, Buffer.from(canonicalJson(claims)), otherKeys.privateKey).toString('base64');
  const { status, title, cause: detail, owner_layer, detail_layer } = errorCatalogue.credential_unknown;
  const unknown = {
    type: '/docs/errors',
    title,
    status,
    code: 'credential_unknown',
    owner_layer,
    detail_layer,
    detail,
  };
  const answer = nonce ? { status: 'ok', version: '1.0.0', identity: { ...claims, signature } } : unknown;
  response.writeHead(nonce ? 200 : status, { 'content-type': nonce ? 'application/json' : 'application/problem+json' });
  response.end(JSON.stringify(answer));
};
const badGateway: RequestListener = (_, response) => {
  response.writeHead(502, { 'content-type': 'text/html' });
  response.end('<html><h1>502 Bad Gateway</h1></html>');
};
const onlyOnPath =
  (path: RegExp, refuse: RequestListener) =>
  (request: IncomingMessage): RequestListener | null =>
    path.test(request.url ?? '') ? refuse : null;

/** How each fault answers requests. With the other faults no request arrives. */
const refusals = {
  ingress: () => impostor,
  other: () => otherInstallation,
  'bad-gateway': () => badGateway,
  claim: onlyOnPath(/^\/v1\/agent\/tasks\/next/, badGateway),
  result: onlyOnPath(/^\/v1\/agent\/tasks\/[^/]+\/result/, badGateway),
} as const satisfies Record<string, (request: IncomingMessage) => RequestListener | null>;

export const proxyFaults = [
  'tcp',
  'tls',
  'ca',
  'expired',
  'name',
  'ingress',
  'other',
  'bad-gateway',
  'claim',
  'result',
] as const;
export type ProxyFault = (typeof proxyFaults)[number];

export interface FaultyProxy {
  url: string;
  /** The certificate of the authority that signs for the proxy, in PEM. */
  ca: string;
  /** Breaks one layer and repairs the previous one. Null only repairs. */
  break(fault: ProxyFault | null): Promise<void>;
  stop(): Promise<void>;
}

const host = 'localhost';

function forward(upstream: URL, request: IncomingMessage, response: ServerResponse): void {
  const { method, headers, url: path } = request;
  const upstreamRequest = httpRequest(
    { hostname: upstream.hostname, port: upstream.port, method, path, headers, agent: false },
    (reply) => {
      response.writeHead(reply.statusCode ?? 502, reply.headers);
      reply.pipe(response);
    },
  );
  upstreamRequest.on('error', () => (response.headersSent ? response.destroy() : badGateway(request, response)));
  response.on('close', () => upstreamRequest.destroy());
  request.pipe(upstreamRequest);
}

export async function faultyProxy(upstream_url: string, port = 0): Promise<FaultyProxy> {
  const upstream = new URL(upstream_url);
  const authority = certificateAuthority('Slipway demo authority');
  const certificates = {
    good: authority.issue(host, '127.0.0.1'),
    ca: certificateAuthority('Unknown authority').issue(host, '127.0.0.1'),
    expired: authority.issueExpired(host, '127.0.0.1'),
    name: authority.issue('elsewhere.invalid'),
  };
  let fault: ProxyFault | null = null;
  const sockets = new Set<Socket>();

  const secure = createHttpsServer(certificates.good, (request, response) => {
    const refuse = fault && fault in refusals ? refusals[fault as keyof typeof refusals](request) : null;
    if (refuse) refuse(request, response);
    else forward(upstream, request, response);
  });
  secure.on('tlsClientError', (_, socket) => socket.destroy());
  const listener = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    if (fault === 'tls') socket.end('HTTP/1.1 400 Bad Request\r\n\r\n');
    else secure.emit('connection', socket);
  });

  const open = () =>
    new Promise<void>((resolve, reject) => {
      listener.once('error', reject);
      listener.listen(port, '127.0.0.1', () => {
        listener.off('error', reject);
        port = (listener.address() as AddressInfo).port;
        resolve();
      });
    });
  const close = () =>
    new Promise<void>((resolve) => {
      if (!listener.listening) return resolve();
      listener.close(() => resolve());
      for (const socket of sockets) socket.destroy();
    });

  await open();
  return {
    url: `https://${host}:${port}`,
    ca: authority.cert,
    async break(next) {
      fault = next;
      const certificate = next && next in certificates ? (next as keyof typeof certificates) : 'good';
      secure.setSecureContext(certificates[certificate]);
      // Closes connections that were opened before the fault, because they would hide it.
      for (const socket of sockets) socket.destroy();
      if (next === 'tcp') await close();
      else if (!listener.listening) await open();
    },
    stop: close,
  };
}
