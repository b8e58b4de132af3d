/**
 * Builds the URL of a probe: the node's base URL plus the pool's path, which cannot leave the base.
 */

export type ProbeUrl = { url: URL } | { wrong: string };

const schemes = ['http:', 'https:'];

/** The messages never repeat the URL, because it may contain a password. */
export function probeUrl(base_url: string, path: string): ProbeUrl {
  if (!URL.canParse(base_url)) return { wrong: 'the base URL is not a URL' };
  const url = new URL(base_url);
  if (!schemes.includes(url.protocol))
    return { wrong: `the base URL begins with ${url.protocol}; it must be http or https` };
  if (url.username !== '' || url.password !== '') return { wrong: 'the base URL holds a user name or a password' };
  url.hash = '';
  if (path === '') return { url };

  const base = url.pathname.replace(/\/*$/, '/');
  const [below = '', query] = splitOnce(path.replace(/#.*$/s, '').replace(/^[/\\]+/, ''), '?');
  // Assigning the parts keeps the host. Parsing the path relative to the base could change it.
  url.pathname = base + below;
  url.search = query ?? '';
  if (!url.pathname.startsWith(base)) return { wrong: 'the path leaves the base URL' };
  return { url };
}

function splitOnce(text: string, by: string): [string, string?] {
  const at = text.indexOf(by);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + by.length)];
}

/** The host to resolve or connect to, without the brackets of an IPv6 literal. */
export const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, '');
