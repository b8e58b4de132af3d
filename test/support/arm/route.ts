/** Requests and routes: paths as in ARM's reference, matched case-insensitively. */
import type { ArmAnswer } from './refusal.ts';

export interface ArmRequest {
  method: string;
  /** The complete requested address. */
  url: string;
  path: string;
  query: URLSearchParams;
  headers: Record<string, string | string[] | undefined>;
  text: string;
}

export type Parameters = Record<string, string>;

export interface Route {
  method: string;
  /** `:name` matches one segment; a leading `:scope*` matches any number of them. */
  path: string;
  answer(request: ArmRequest, parameters: Parameters): ArmAnswer;
}

const patternOf = (path: string): RegExp =>
  new RegExp(`^${path.replace(/:(\w+)\*/g, '(?<$1>.+?)').replace(/:(\w+)/g, '(?<$1>[^/]+)')}/?$`, 'i');

export function router(routes: Route[]): (request: ArmRequest) => ArmAnswer | undefined {
  const table = routes.map((route) => ({ route, pattern: patternOf(route.path) }));
  return (request) => {
    for (const { route, pattern } of table) {
      if (route.method !== request.method) continue;
      const match = pattern.exec(request.path);
      if (!match) continue;
      const parameters = Object.entries(match.groups ?? {}).map(([name, value]) => [name, decodeURIComponent(value)]);
      return route.answer(request, Object.fromEntries(parameters));
    }
    return undefined;
  };
}

export function jsonOf<T>({ text }: ArmRequest): Partial<T> {
  return text ? JSON.parse(text) : {};
}
