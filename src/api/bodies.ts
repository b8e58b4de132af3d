/** How bodies are read, and which kinds a route takes. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { parse as parseYaml } from 'yaml';
import { ApiProblem } from '../contract/errors.ts';
import type { RouteDeclaration } from '../contract/route.ts';

const ndjson = 'application/x-ndjson';
const plainText = 'text/plain';

export function readBodies(app: FastifyInstance): void {
  const json = app.getDefaultJsonParser('error', 'error');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body === '') done(null, undefined);
    else json(request, body as string, done);
  });
  app.addContentTypeParser([ndjson, plainText], { parseAs: 'string' }, (_, body, done) => done(null, body));
  app.addContentTypeParser(
    ['application/yaml', 'text/yaml', 'application/x-yaml'],
    { parseAs: 'string' },
    (_, body, done) => {
      try {
        done(null, parseYaml(body as string, { maxAliasCount: 50, logLevel: 'error' }));
      } catch (error) {
        const why = error instanceof Error ? error.message.split('\n')[0] : '';
        done(new ApiProblem('malformed_json', `The body is not valid YAML: ${why}`));
      }
    },
  );
}

const readBy = (route: RouteDeclaration): readonly string[] =>
  route.also_reads?.includes(ndjson) ? route.also_reads : ['application/json', ...(route.also_reads ?? [])];

const isEmpty = (body: unknown) =>
  body === undefined || (typeof body === 'object' && body !== null && Object.keys(body).length === 0);

const typeOf = (request: FastifyRequest) => request.headers['content-type']?.split(';')[0]?.trim().toLowerCase();

/** After this the body is what the route describes, in whichever form it came. */
export function readTextBody(request: FastifyRequest, route: RouteDeclaration): void {
  if (route.reads_text && typeOf(request) === plainText) request.body = route.reads_text(String(request.body ?? ''));
}

/** Refuses a content type that the server can read but this route does not take, and a body where none is taken. */
export function checkBodyKind(request: FastifyRequest, route: RouteDeclaration): void {
  const given = typeOf(request);
  if (request.body === undefined || !given) return;
  const taken = readBy(route);
  if (!taken.includes(given.endsWith('yaml') ? 'application/yaml' : given))
    throw new ApiProblem('unsupported_media_type', `This route reads ${taken.join(' or ')}, not ${given}.`);
  const takesNone = route.body === undefined && !taken.includes(ndjson);
  if (takesNone && !isEmpty(request.body)) throw new ApiProblem('invalid_request', 'This call takes no body.');
}
