/** Refuses unknown addresses, and known ones called with the wrong method. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { RouteDeclaration } from '../../contract/route.ts';
import { routes } from '../../contract/routes.ts';

/** HEAD must not have the effects of GET, such as leasing a task or holding a stream open. */
export const answersHead = (route: RouteDeclaration): boolean =>
  route.method === 'GET' && route.access.kind !== 'agent' && route.reply_type !== 'text/event-stream';

const known = Object.values(routes).map((route: RouteDeclaration) => ({
  address: new RegExp(`^${route.path.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`),
  methods: answersHead(route) ? [route.method, 'HEAD'] : [route.method],
}));

const methodsAt = (path: string): string[] => [
  ...new Set(known.filter(({ address }) => address.test(path)).flatMap(({ methods }) => methods)),
];

export const pathOf = (request: FastifyRequest): string => request.url.split('?')[0] ?? '/';

const maxShownPath = 200;

/** The path for a message to the caller, cut so that a refusal does not repeat a long address. */
export const shownPathOf = (request: FastifyRequest): string => pathOf(request).slice(0, maxShownPath);

/**
 * For requests that match no route: names the methods of the address, or says that there is none.
 */
export function refuseUnrouted(request: FastifyRequest, reply: FastifyReply): void {
  const path = pathOf(request);
  const methods = methodsAt(path);
  const shown = shownPathOf(request);
  if (methods.length === 0) throw new ApiProblem('not_found', `There is no route ${request.method} ${shown}.`);
  reply.header('allow', [...methods, 'OPTIONS'].join(', '));
  if (request.method !== 'OPTIONS')
    throw new ApiProblem('method_not_allowed', `${shown} takes ${methods.join(' and ')}, not ${request.method}.`);
}
