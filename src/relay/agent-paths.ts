/**
 * Which paths are the agents': those of the contract, and no others. A path is judged as the control plane will see it, so it is resolved
 * first, and what was judged is what is passed on.
 */
import { routes } from '../contract/routes.ts';

export interface Target {
  path: string;
  /** With its question mark; empty where there is none. */
  search: string;
}

/** Only what it says after the host is ever used. */
const anyHost = 'http://relay';

/** Null for what is no path of a server: another host, or nothing that can be read. */
export function targetOf(url: string): Target | null {
  if (!url.startsWith('/') || !URL.canParse(anyHost + url)) return null;
  const { pathname, search } = new URL(anyHost + url);
  return { path: pathname, search };
}

/** What an id may be, and how agents write it; nothing that somebody on the way could read as another path. */
const oneId = '(?:[A-Za-z0-9._:-]|%3A)+';

const agentPaths = Object.values(routes)
  .filter(({ tag }) => tag === 'agent')
  .map(({ path }) => new RegExp(`^${path.replaceAll(/\{\w+\}/g, oneId)}$`));

export const isAgentPath = (path: string): boolean => agentPaths.some((each) => each.test(path));
