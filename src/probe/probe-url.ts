/** The one URL that a probe asks for: the node's base URL with the pool's path below it. Nothing in the path can leave it. */

export type ProbeUrl = { url: URL } | { wrong: string };

const schemes = ['http:', 'https:'];

/** No sentence here repeats the URL: what is wrong with it may be that it holds a password. */
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
  // Assigning to the parts keeps the host whatever the path holds; a path that is parsed with the base could name another.
  url.pathname = base + below;
  url.search = query ?? '';
  if (!url.pathname.startsWith(base)) return { wrong: 'the path leaves the base URL' };
  return { url };
}

function splitOnce(text: string, by: string): [string, string?] {
  const at = text.indexOf(by);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + by.length)];
}

/** The host to look up or to connect to: an IPv6 literal loses its brackets. */
export const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, '');
