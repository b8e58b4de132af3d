/** Serves the console's files and the API documentation, the only public pages. */
import { join } from 'node:path';
import fastifyStatic from '@fastify/static';
import fastifySwagger from '@fastify/swagger';
import fastifySwaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiProblem } from '../../contract/errors/errors.ts';
import { errorPagePath } from '../../contract/errors/problem-body.ts';
import { openapiDocument } from '../../contract/openapi/document.ts';
import { pathOf, shownPathOf } from './addresses.ts';
import { errorPage } from './replies/error-page.ts';

const contentSecurityPolicy =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

export async function serveDocs(app: FastifyInstance, version: string): Promise<void> {
  const document = openapiDocument(version);
  // The document is large and never changes, so it is serialized once.
  const text = JSON.stringify(document);
  app.get('/openapi.json', async (_, reply) => reply.type('application/json; charset=utf-8').send(text));
  const page = errorPage();
  app.get(errorPagePath, async (_, reply) =>
    reply.type('text/html; charset=utf-8').header('content-security-policy', contentSecurityPolicy).send(page),
  );
  await app.register(fastifySwagger, { mode: 'static', specification: { document: document as never } });
  await app.register(fastifySwaggerUi, {
    routePrefix: '/docs',
    staticCSP: true,
    // The page needs inline styles; its scripts stay restricted to its own files.
    transformStaticCSP: (policy) => policy.replace("style-src 'self' https:", "style-src 'self' 'unsafe-inline'"),
  });
}

/** Below these prefixes, an unknown address gets a problem instead of the console. */
const programPrefixes = ['/v1', '/docs', '/compat', '/metrics', '/healthz', '/readyz', '/openapi.json'];

/** The console routes in the browser, so every other address except an asset gets its page. */
export function isConsolePage(request: FastifyRequest, directory: string | null): boolean {
  const path = pathOf(request);
  return (
    directory !== null &&
    (request.method === 'GET' || request.method === 'HEAD') &&
    !programPrefixes.some((prefix) => path === prefix || path.startsWith(`${prefix}/`)) &&
    !path.startsWith('/assets/')
  );
}

const headersFor = (cacheControl: string) => (reply: { header(name: string, value: string): unknown }) => {
  reply.header('cache-control', cacheControl);
  reply.header('content-security-policy', contentSecurityPolicy);
};

/**
 * Files with hashed names are cached forever; the page that loads them is revalidated each time.
 * Files in `assets/` are looked up per request, so that a console that is rebuilt while the server
 * runs is served completely.
 */
export async function serveConsole(app: FastifyInstance, directory: string | null): Promise<void> {
  if (directory !== null) {
    await app.register(fastifyStatic, {
      root: directory,
      wildcard: false,
      globIgnore: ['assets/**'],
      index: false,
      cacheControl: false,
      setHeaders: headersFor('no-cache'),
    });
    await app.register(fastifyStatic, {
      root: join(directory, 'assets'),
      prefix: '/assets/',
      decorateReply: false,
      index: false,
      cacheControl: false,
      setHeaders: headersFor('public, max-age=31536000, immutable'),
    });
  }
  app.setNotFoundHandler((request, reply) => {
    if (isConsolePage(request, directory)) return reply.sendFile('index.html');
    throw new ApiProblem('not_found', `There is no route ${request.method} ${shownPathOf(request)}.`);
  });
}
