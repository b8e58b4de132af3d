/** The console's files and the API's documentation: public, and nothing else is. */
import fastifyStatic from '@fastify/static';
import fastifySwagger from '@fastify/swagger';
import fastifySwaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import { ApiProblem } from '../contract/errors.ts';
import { openapiDocument } from '../contract/openapi.ts';
import { sendProblem } from './problem-reply.ts';

const contentSecurityPolicy =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

export async function serveDocs(app: FastifyInstance, version: string): Promise<void> {
  const document = openapiDocument(version);
  app.get('/openapi.json', async () => document);
  await app.register(fastifySwagger, { mode: 'static', specification: { document: document as never } });
  await app.register(fastifySwaggerUi, { routePrefix: '/docs', staticCSP: true });
}

/** Addresses that belong to programs: what is not there is a problem, not a page. */
const programPrefixes = ['/v1/', '/docs', '/compat/', '/metrics', '/healthz', '/readyz', '/openapi.json'];

/** Hashed file names never change, so they may be kept; the page that names them is asked for each time. */
export async function serveConsole(app: FastifyInstance, directory: string | null): Promise<void> {
  if (directory !== null) {
    await app.register(fastifyStatic, {
      root: directory,
      wildcard: false,
      index: false,
      cacheControl: false,
      setHeaders(reply, path) {
        reply.header('cache-control', path.includes('/assets/') ? 'public, max-age=31536000, immutable' : 'no-cache');
        reply.header('content-security-policy', contentSecurityPolicy);
      },
    });
  }
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?')[0] ?? '/';
    const isPage =
      directory !== null &&
      (request.method === 'GET' || request.method === 'HEAD') &&
      !programPrefixes.some((prefix) => path.startsWith(prefix)) &&
      !path.startsWith('/assets/');
    if (isPage) return reply.sendFile('index.html');
    sendProblem(new ApiProblem('not_found', `There is nothing at ${request.method} ${path}.`), request, reply);
  });
}
