/** The URL of a server that was started without flags. This file must not import anything. */
export const defaultServer = 'http://127.0.0.1:7070';
