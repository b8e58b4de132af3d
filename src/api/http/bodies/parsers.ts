/**
 * The content types that routes read, and their parsers. Each set of types has a Fastify scope with
 * only its own parsers, so that the server refuses other types before reading the body.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiProblem } from '../../../contract/errors/errors.ts';
import type { RouteDeclaration } from '../../../contract/route.ts';
import { readYaml } from './yaml.ts';

const json = 'application/json';
const ndjson = 'application/x-ndjson';
const plainText = 'text/plain';
const yaml = 'application/yaml';
const yamlAliases = ['text/yaml', 'application/x-yaml'];

export const jsonOnly: readonly string[] = [json];

/** A route that reads NDJSON does not also read JSON. */
export const typesReadBy = ({ extra_content_types = [] }: RouteDeclaration): readonly string[] =>
  extra_content_types.includes(ndjson) ? extra_content_types : [json, ...extra_content_types];

const parsers: Record<string, (scope: FastifyInstance) => void> = {
  [json](scope) {
    const parse = scope.getDefaultJsonParser('error', 'error');
    scope.addContentTypeParser(json, { parseAs: 'string' }, (request, body, done) => {
      if (body === '') done(null, undefined);
      else parse(request, body as string, done);
    });
  },
  [ndjson]: (scope) => scope.addContentTypeParser(ndjson, { parseAs: 'string' }, (_, body, done) => done(null, body)),
  [plainText]: (scope) =>
    scope.addContentTypeParser(plainText, { parseAs: 'string' }, (_, body, done) => done(null, body)),
  [yaml]: (scope) =>
    scope.addContentTypeParser([yaml, ...yamlAliases], { parseAs: 'string' }, async (_: unknown, body: string) =>
      readYaml(body),
    ),
};

/** Makes the scope read these types only. */
export function setParsers(scope: FastifyInstance, types: readonly string[]): void {
  scope.removeAllContentTypeParsers();
  for (const type of types) {
    const add = parsers[type];
    if (!add) throw new Error(`no parser for ${type}`);
    add(scope);
  }
}

const isEmpty = (body: unknown) =>
  body === undefined || (typeof body === 'object' && body !== null && Object.keys(body).length === 0);

const contentTypeOf = (request: FastifyRequest) =>
  request.headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase();

/**
 * Runs before the body is read. Unlike Fastify's own message, the message names the types that the
 * route reads.
 */
export function checkContentType(request: FastifyRequest, route: RouteDeclaration): void {
  const contentType = contentTypeOf(request);
  if (!contentType || route.method === 'GET') return;
  const acceptedTypes = typesReadBy(route);
  if (!acceptedTypes.includes(yamlAliases.includes(contentType) ? yaml : contentType))
    throw new ApiProblem(
      'unsupported_media_type',
      `This route reads ${acceptedTypes.join(' or ')}, not ${contentType.slice(0, 64)}.`,
    );
}

export const takesNoBody = (route: RouteDeclaration): boolean =>
  route.body === undefined && !route.extra_content_types?.includes(ndjson);

export function refuseUnwantedBody(request: FastifyRequest, route: RouteDeclaration): void {
  if (takesNoBody(route) && !isEmpty(request.body)) throw new ApiProblem('invalid_request', 'This call takes no body.');
}

/** Converts a plain text body to the form that the route describes. */
export function readTextBody(request: FastifyRequest, route: RouteDeclaration): void {
  if (route.reads_text && contentTypeOf(request) === plainText)
    request.body = route.reads_text(String(request.body ?? ''));
}
