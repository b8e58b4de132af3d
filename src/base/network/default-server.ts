/** The address of a server started without flags, in a file of its own that loads nothing else. */
export const defaultServer = 'http://127.0.0.1:7070';
