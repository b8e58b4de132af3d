/** The URL of a server without flags. A file without imports, so that the CLI loads quickly. */
export const defaultServer = 'http://127.0.0.1:7070';
