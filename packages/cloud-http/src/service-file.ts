/**
 * The module that a transfer worker loads to send requests. The build of the packed command
 * replaces this file, because it puts the module elsewhere.
 */

const ending = import.meta.url.endsWith('.ts') ? '.ts' : '.js';

export const HTTP_SERVICE = new URL(`./http-service${ending}`, import.meta.url);
