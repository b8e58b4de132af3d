/** Refuses unknown addresses, and known ones called with the wrong method. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { RouteDeclaration } from '../../contract/route.ts';
import { routes } from '../../contract/routes.ts';

/** HEAD must not have the effects of GET, such as leasing a task or holding a stream open. */
export const answersHead = (route: RouteDeclaration): boolean =>
  route.method === 'GET' && route.access.kind !== 'agent' && route.reply_type !== 'text/event-stream';

const knownRoutes = Object.values(routes).map((route: RouteDeclaration) => ({
  address: new RegExp(`^${route.path.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`),
  methods: answersHead(route) ? [route.method, 'HEAD'] : [route.method],
}));

const methodsAt = (path: string): string[] => [
  ...new Set(knownRoutes.filter(({ address }) => address.test(path)).flatMap(({ methods }) => methods)),
];

export const pathOf = (request: FastifyRequest): string => request.url.split('?')[0] ?? '/';

const maxShownPath = 200;

/** The path for messages to the caller, cut so that a refusal does not repeat a long address. */
export const shownPathOf = (request: FastifyRequest): string => pathOf(request).slice(0, maxShownPath);

/**
 * Refuses a request that matches no route: 405 with the methods of the address, or 404 if no route
 * has this address. Returns for OPTIONS of a known address, after setting the `Allow` header.
 */
export function refuseUnrouted(request: FastifyRequest, reply: FastifyReply): void {
  const path = pathOf(request);
  const methods = methodsAt(path);
  const shownPath = shownPathOf(request);
  if (methods.length === 0) throw new ApiProblem('not_found', `There is no route ${request.method} ${shownPath}.`);
  reply.header('allow', [...methods, 'OPTIONS'].join(', '));
  if (request.method !== 'OPTIONS')
    throw new ApiProblem('method_not_allowed', `${shownPath} takes ${methods.join(' and ')}, not ${request.method}.`);
}
