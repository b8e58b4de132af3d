/** Log lines as text: programs that colour their output for a terminal would otherwise fill the page with escapes. */

const escapeCode = String.fromCharCode(27);
const terminalCodes = new RegExp(`${escapeCode}(?:\\[[0-9;?]*[ -/]*[@-~]|\\][^\\u0007]*\\u0007|[@-_])`, 'g');

export const plainLine = (line: string): string => line.replaceAll(terminalCodes, '');
