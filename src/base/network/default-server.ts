/** The address of a server started without flags. This file must import nothing else. */
export const defaultServer = 'http://127.0.0.1:7070';
