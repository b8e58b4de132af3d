/**
 * SQLSTATE classes that mean "the server is not there", not "the statement is wrong": connection
 * exceptions, insufficient resources, operator intervention and system errors.
 */
const unavailableClasses = ['08', '53', '57', '58'];

export const isUnavailableCode = (sqlState: string | undefined): boolean =>
  unavailableClasses.includes((sqlState ?? '').slice(0, 2));
