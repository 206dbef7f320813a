/*
 * Ends the process at once. When Node ends by itself it first stops listening for signals, and then
 * takes down its heap for up to a tenth of a second. A signal in that time would end the process
 * with the status of the signal, after the command has printed that it succeeded.
 *
 * The module needs no library, so one file loads with glibc and with musl.
 */

typedef __SIZE_TYPE__ size;

/* Ends all threads. The kernel does what is left: it closes files and sockets. */
static void exit_group(long status) {
#if defined(__x86_64__)
  long number = 231;
  __asm__ volatile("syscall" : "+a"(number) : "D"(status) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long number __asm__("x8") = 94;
  register long first __asm__("x0") = status;
  __asm__ volatile("svc 0" : "+r"(first) : "r"(number) : "memory");
#else
#error "the number of the system call is not known"
#endif
}

/* Node-API, from js_native_api.h. */
typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef struct napi_callback_info__ *napi_info;
typedef napi_value napi_callback(napi_env, napi_info);
enum { NAPI_OK = 0, NAPI_VERSION = 8, NAPI_AUTO_LENGTH = -1 };

int napi_create_function(napi_env, const char *, size, napi_callback *, void *, napi_value *);
int napi_get_cb_info(napi_env, napi_info, size *, napi_value *, napi_value *, void **);
int napi_get_value_uint32(napi_env, napi_value, unsigned *);
int napi_set_named_property(napi_env, napi_value, const char *, napi_value);
int napi_throw_type_error(napi_env, const char *, const char *);

/* exitNow(status) */
static napi_value call(napi_env env, napi_info info) {
  size count = 1;
  napi_value args[1];
  unsigned status;
  if (napi_get_cb_info(env, info, &count, args, 0, 0) != NAPI_OK) return 0;
  if (napi_get_value_uint32(env, args[0], &status) != NAPI_OK) {
    napi_throw_type_error(env, 0, "exitNow takes a number");
    return 0;
  }
  exit_group(status);
  return 0;
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int node_api_module_get_api_version_v1(void) { return NAPI_VERSION; }

EXPORTED napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  napi_value function;
  if (napi_create_function(env, "exitNow", NAPI_AUTO_LENGTH, call, 0, &function) == NAPI_OK)
    napi_set_named_property(env, exports, "exitNow", function);
  return exports;
}
